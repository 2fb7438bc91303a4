select
    s_name,
    count(*) as numwait
from
    lineitem l1
    join orders on o_orderkey = l1.l_orderkey
    join supplier on s_suppkey = l1.l_suppkey
    join nation on s_nationkey = n_nationkey
    semi join lineitem l2 on
        l2.l_orderkey = o_orderkey
        and l2.l_suppkey <> l1.l_suppkey
    anti join lineitem l3 on
        l3.l_orderkey = o_orderkey
        and l3.l_suppkey <> l1.l_suppkey
        and l3.l_receiptdate > l3.l_commitdate
where
    o_orderstatus = 'F'
    and l1.l_receiptdate > l1.l_commitdate
    and n_name = 'SAUDI ARABIA'
group by
    s_name
order by
    numwait desc,
    s_name
limit 100
