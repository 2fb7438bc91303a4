select
    l_partkey,
    0.2 * avg(l_quantity)
from
    lineitem
where
    l_partkey in (
        select
            p_partkey
        from
            part
        where
            p_brand = 'Brand#23'
            and p_container = 'MED BOX'
    )
group by
    l_partkey
