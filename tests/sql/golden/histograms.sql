-- title: Units by key, under a cap on the keys of a unit
-- world: small
-- with: 'max_groups_contributed': 3
SELECT k, COUNT(DISTINCT uid) AS people FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 4fff4aeacc745880
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(*) AS "__dpsql_m0"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 3 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 5328955d1272173b
-- spark: 780e658c28aeed06

-- title: Units by a key with a known domain, in as many groups as they like
-- world: small
-- with: 'max_groups_contributed': 'unlimited'
SELECT c, COUNT(DISTINCT uid) AS people FROM visits GROUP BY c;

-- __dpsql_released_0, as one: 00422be492d3d609
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(DISTINCT "__dpsql_unit") AS "__dpsql_m0"
  FROM (
    SELECT
      *
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        LIST_POSITION(
          [TRY_CAST('red' AS TEXT), TRY_CAST('green' AS TEXT), TRY_CAST('blue' AS TEXT)],
          "c"
        ) AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
    WHERE
      NOT "__dpsql_k0" IS NULL
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 5e5807e5fbf51115
-- spark: dd6505d9b300cb43

-- title: Units by two keys, one of them computed
-- world: small
-- with: 'max_groups_contributed': 2
SELECT s, n // 5 AS five, COUNT(DISTINCT uid) FROM visits GROUP BY ALL;

-- __dpsql_released_0, as one: 96610d23017d4bce
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    "__dpsql_k1",
    COUNT(*) AS "__dpsql_m0"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1")), "__dpsql_k0", "__dpsql_k1"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1")), "__dpsql_k0", "__dpsql_k1"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1")), "__dpsql_k0", "__dpsql_k1"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "s" AS "__dpsql_k0",
        TRY("n" // 5) AS "__dpsql_k1"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 2 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0",
    "__dpsql_k1"
);

-- postgresql: 21672cc51f43a65e
-- spark: 7c2116b0f71e2d30

-- title: Rows by key
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, COUNT(*) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: f21c58a6c7e96c16
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(*) AS "__dpsql_m0",
    COUNT(CASE WHEN "__dpsql_row" = "__dpsql_first" THEN 1 END) AS "__dpsql_m1"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 3 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 4
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 45287c0116e5acd2
-- spark: abd477ed8c3f8139

-- title: Units in all, without a key
-- world: small
SELECT COUNT(DISTINCT uid) FROM visits;

-- __dpsql_released_0, as one: da675a88c2c25eec
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_m0"
FROM (
  SELECT
    COUNT(DISTINCT "__dpsql_unit") AS "__dpsql_m0"
  FROM (
    SELECT
      "Uid" AS "__dpsql_unit"
    FROM "visits"
    WHERE
      NOT "Uid" IS NULL
  )
);

-- postgresql: dba2304a9deda200
-- spark: f4496ffd0c39d968

-- title: Units that satisfy a condition
-- world: small
SELECT k, COUNT(DISTINCT uid) FILTER (flag) AS flagged FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 84fe3fa6b42c301b
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(DISTINCT CASE WHEN NOT "__dpsql_m0" IS NULL THEN "__dpsql_unit" END) AS "__dpsql_m0",
    COUNT(DISTINCT "__dpsql_unit") AS "__dpsql_m1"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        "__dpsql_m0" AS "__dpsql_m0"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "k" AS "__dpsql_k0",
          CASE WHEN "flag" THEN "Uid" END AS "__dpsql_m0"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: cd3139fa1606476e
-- spark: a763321fa0f799b1

-- title: Rows that satisfy a condition
-- world: small
SELECT k, COUNT(*) FILTER (WHERE n > 3) AS some, COUNT_IF(flag) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 3b202c29fddd1e8e
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    COUNT(*) AS "__dpsql_m2"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      LEAST("__dpsql_of0", 10) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 10) AS "__dpsql_m1",
      LEAST("__dpsql_of2", 1) AS "__dpsql_m2"
    FROM (
      SELECT
        *,
        DENSE_RANK() OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
        ) AS "__dpsql_rank",
        ROW_NUMBER() OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
        ) AS "__dpsql_row",
        RANK() OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
        ) AS "__dpsql_first",
        COUNT("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT("__dpsql_m1") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          "__dpsql_m0" AS "__dpsql_m0",
          "__dpsql_m1" AS "__dpsql_m1"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            CASE WHEN "n" > 3 THEN 1 END AS "__dpsql_m0",
            CASE WHEN "flag" THEN 1 END AS "__dpsql_m1"
          FROM "visits"
          WHERE
            NOT "Uid" IS NULL
        )
      )
    )
    WHERE
      "__dpsql_row" = "__dpsql_first"
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 99e6c0dc2c79f2b7
-- spark: 337d8b4b88fde7b3

-- title: Distinct values
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, COUNT(DISTINCT s) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: e65440efe57d2505
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(DISTINCT "__dpsql_m0") AS "__dpsql_m0",
    COUNT(DISTINCT "__dpsql_unit") AS "__dpsql_m1"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        CASE
          WHEN DENSE_RANK() OVER (
            PARTITION BY "__dpsql_unit", "__dpsql_k0"
            ORDER BY "__dpsql_m0" IS NULL, HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_m0")), "__dpsql_m0"
          ) <= 4
          THEN "__dpsql_m0"
        END AS "__dpsql_m0"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "k" AS "__dpsql_k0",
          "s" AS "__dpsql_m0"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
    )
  )
  WHERE
    "__dpsql_rank" <= 3
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: aacdce4ad926a755
-- spark: c799a686d192c443

-- title: Distinct values beside a sum and a count of units
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, COUNT(DISTINCT s), SUM(n), COUNT(DISTINCT uid) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: e9d5283829b94a61
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2"
FROM (
  WITH "__dpsql_kept" AS MATERIALIZED (
    SELECT
      *
    FROM (
      SELECT
        *,
        DENSE_RANK() OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
        ) AS "__dpsql_rank"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN DENSE_RANK() OVER (
              PARTITION BY "__dpsql_unit", "__dpsql_k0"
              ORDER BY "__dpsql_m0" IS NULL, HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_m0")), "__dpsql_m0"
            ) <= 4
            THEN "__dpsql_m0"
          END AS "__dpsql_m0",
          CASE
            WHEN "__dpsql_m1" <= -5
            THEN -5
            WHEN "__dpsql_m1" >= 20
            THEN 20
            ELSE TRY_CAST("__dpsql_m1" AS BIGINT)
          END AS "__dpsql_m1"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "s" AS "__dpsql_m0",
            "n" AS "__dpsql_m1"
          FROM "visits"
          WHERE
            NOT "Uid" IS NULL
        )
      )
    )
    WHERE
      "__dpsql_rank" <= 3
  )
  SELECT
    "__dpsql_k0",
    COUNT(DISTINCT "__dpsql_m0") AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    COUNT("__dpsql_unit") AS "__dpsql_m2"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      NULL AS "__dpsql_m0",
      "__dpsql_m1" AS "__dpsql_m1",
      "__dpsql_m2" AS "__dpsql_m2"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        CAST(GREATEST(-20, LEAST(80, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
        LEAST(COUNT(*), 1) AS "__dpsql_m2"
      FROM (
        SELECT
          *
        FROM "__dpsql_kept"
      )
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
    UNION ALL
    SELECT
      NULL,
      "__dpsql_k0",
      "__dpsql_m0",
      NULL,
      NULL
    FROM "__dpsql_kept"
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: d0bb6397f1c5e7be
-- spark: 1dc434b07e1e9454

-- title: Groups of too few units are left out
-- world: small
-- with: 'min_units_per_group': 10
SELECT k, COUNT(*) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: c9f7db16d4d4d56b
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(*) AS "__dpsql_m0",
    COUNT(CASE WHEN "__dpsql_row" = "__dpsql_first" THEN 1 END) AS "__dpsql_m1"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
  HAVING
    COUNT(CASE WHEN "__dpsql_row" = "__dpsql_first" THEN 1 END) >= 10
);

-- postgresql: fe4e609067003e8b
-- spark: 6af1abdde6e9b5b3

-- title: Groups of too few units are left out of a count of units
-- world: small
-- with: 'min_units_per_group': 10
SELECT k, COUNT(DISTINCT uid) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: c074a6548355f446
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(*) AS "__dpsql_m0"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
  HAVING
    COUNT(*) >= 10
);

-- postgresql: fcbe168e914d20ff
-- spark: fc9333e2dd3d1824

-- title: Keys with a known domain
-- world: small
SELECT c, COUNT(*) FROM visits GROUP BY c;

-- __dpsql_released_0, as one: 9c66d08274c32cac
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      LEAST(COUNT(*), 10) AS "__dpsql_m0"
    FROM (
      SELECT
        *
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          LIST_POSITION(
            [TRY_CAST('red' AS TEXT), TRY_CAST('green' AS TEXT), TRY_CAST('blue' AS TEXT)],
            "c"
          ) AS "__dpsql_k0"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
      WHERE
        NOT "__dpsql_k0" IS NULL
    )
    GROUP BY
      "__dpsql_unit",
      "__dpsql_k0"
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: c9ad1c45357f5596
-- spark: 588a747820da8979

-- title: A key whose domain is that of a public column
-- world: lineage
SELECT s.k, SUM(v.x) FROM visits v JOIN shops s ON v.k = s.k GROUP BY s.k;

-- __dpsql_released_0, as one: cf1534203bbbe243
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 8192
      ))
    ) AS BIGINT) AS "__dpsql_m0"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      CAST(GREATEST(-1677721600, LEAST(6710886400, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        CASE
          WHEN ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE))
          THEN NULL
          WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= -2.5e0
          THEN -167772160
          WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 10.0e0
          THEN 671088640
          ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 1.4901161193847656e-08) AS BIGINT)
        END AS "__dpsql_m0"
      FROM (
        SELECT
          *
        FROM (
          SELECT
            "__dpsql_c4" AS "__dpsql_unit",
            LIST_POSITION(
              [
                TRY_CAST('0' AS INT),
                TRY_CAST('1' AS INT),
                TRY_CAST('2' AS INT),
                TRY_CAST('3' AS INT)
              ],
              "__dpsql_c6"
            ) AS "__dpsql_k0",
            "__dpsql_c3" AS "__dpsql_m0"
          FROM (
            SELECT
              "__dpsql_c1",
              CASE WHEN STRLEN("__dpsql_c2") <= 16384 THEN "__dpsql_c2" END AS "__dpsql_c2",
              "__dpsql_c3",
              "__dpsql_c4"
            FROM (
              SELECT
                "k" AS "__dpsql_c1",
                "s" AS "__dpsql_c2",
                "x" AS "__dpsql_c3",
                "uid" AS "__dpsql_c4"
              FROM "visits"
            )
          )
          JOIN (
            SELECT
              "k" AS "__dpsql_c6"
            FROM "shops"
          )
            ON (
              (
                "__dpsql_c1" = "__dpsql_c6"
              )
            )
          WHERE
            NOT "__dpsql_c4" IS NULL
        )
        WHERE
          NOT "__dpsql_k0" IS NULL
      )
    )
    GROUP BY
      "__dpsql_unit",
      "__dpsql_k0"
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: b9d0fe6bd70c0eb0
-- spark: 16a82c37f17a69c9

