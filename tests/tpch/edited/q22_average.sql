select
    avg(c_acctbal) as average
from
    customer
where
    c_acctbal > 0.00
    and substring(c_phone from 1 for 2) in ('13', '31', '23', '29', '30', '18', '17')
