select
    date_trunc('month', o_orderdate) as o_ordermonth,
    sum(l_extendedprice * (1 - l_discount)) as revenue
from
    customer,
    orders,
    lineitem
where
    c_mktsegment = 'BUILDING'
    and c_custkey = o_custkey
    and l_orderkey = o_orderkey
    and o_orderdate < date '1995-03-15'
    and l_shipdate > date '1995-03-15'
group by
    o_ordermonth
order by
    revenue desc,
    o_ordermonth
limit 10
