-- title: The sum of integers
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, SUM(n) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: a861b8034a1a67b4
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(-20, LEAST(80, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN "__dpsql_m0" <= -5
            THEN -5
            WHEN "__dpsql_m0" >= 20
            THEN 20
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "n" AS "__dpsql_m0"
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
    "__dpsql_rank" <= 3
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 650273bfb214f56a
-- spark: 342d7abd64edde8f

-- title: The sum of doubles
-- world: small
SELECT k, SUM(x) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: e118d1b7bd851f3c
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 8192
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(-1677721600, LEAST(6710886400, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
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
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "x" AS "__dpsql_m0"
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

-- postgresql: b3b618e74467de43
-- spark: be09d93489980486

-- title: The sum of decimals
-- world: small
SELECT k, SUM(amount) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 255ccbc91c54f734
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 8192
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(0, LEAST(8388608000, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= 0.0e0
            THEN 0
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 100.0e0
            THEN 838860800
            ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 1.1920928955078125e-07) AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "amount" AS "__dpsql_m0"
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

-- postgresql: ae104217a35e3a73
-- spark: 26b7f174cf2cbeb7

-- title: The sum over a large range, whose unit sums need a wide integer
-- world: small
-- with: 'max_rows_contributed': 1000000
SELECT k, SUM(wide * 1000) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: c15d33333ce42a58
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 1073741824
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(0, LEAST(1048576000000000, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE))
            THEN NULL
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= 0.0e0
            THEN 0
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 1073741824000.0e0
            THEN 1048576000
            ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 1024.0e0) AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            TRY("wide" * 1000) AS "__dpsql_m0"
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

-- postgresql: 09e89f27690e4fb9
-- spark: 9d27cb64ac747c72

-- title: The average and its number of values
-- world: small
-- with: 'max_rows_contributed': 4
SELECT k, AVG(x), SUM(x), COUNT(x) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 20d2b258126f56d4
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3",
  "__dpsql_m4"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 4096
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m2"), 0) // 4096
      ))
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3",
    COUNT(*) AS "__dpsql_m4"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      GREATEST(
        -1677721600,
        LEAST(
          1677721600,
          CASE
            WHEN "__dpsql_of1" <= 4
            THEN (
              CAST(GREATEST(-671088640, LEAST(2684354560, COALESCE("__dpsql_of0", 0))) AS BIGINT) - (
                LEAST("__dpsql_of1", 4) * 251658240
              )
            )
            ELSE CAST(GREATEST(
              -1677721600,
              LEAST(
                1677721600,
                (
                  (
                    (
                      COALESCE("__dpsql_of0", 0) - (
                        CAST("__dpsql_of1" AS INT128) * 251658240
                      )
                    ) * 4
                  ) // "__dpsql_of1"
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 4) AS "__dpsql_m1",
      CAST(GREATEST(-671088640, LEAST(2684354560, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m2",
      LEAST("__dpsql_of2", 4) AS "__dpsql_m3",
      LEAST("__dpsql_of3", 1) AS "__dpsql_m4"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        COUNT("__dpsql_m3") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of3"
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
          END AS "__dpsql_m0",
          "__dpsql_m0" AS "__dpsql_m3"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "x" AS "__dpsql_m0"
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

-- postgresql: 1cbc7621979a0f20
-- spark: 9a5d37f7b1f90cdb

-- title: Variance and standard deviation
-- world: small
-- with: 'max_rows_contributed': 4
SELECT k, VAR_POP(x), STDDEV_SAMP(n) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 82bd1d719e754fb5
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3",
  "__dpsql_m4",
  "__dpsql_m5",
  "__dpsql_m6"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 4096
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m2"), 0) // 1099511627776
      ))
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m4"), 0))) AS BIGINT) AS "__dpsql_m4",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m5"), 0))) AS BIGINT) AS "__dpsql_m5",
    COUNT(*) AS "__dpsql_m6"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      GREATEST(
        -1677721600,
        LEAST(
          1677721600,
          CASE
            WHEN "__dpsql_of1" <= 4
            THEN (
              CAST(GREATEST(-671088640, LEAST(2684354560, COALESCE("__dpsql_of0", 0))) AS BIGINT) - (
                LEAST("__dpsql_of1", 4) * 251658240
              )
            )
            ELSE CAST(GREATEST(
              -1677721600,
              LEAST(
                1677721600,
                (
                  (
                    (
                      COALESCE("__dpsql_of0", 0) - (
                        CAST("__dpsql_of1" AS INT128) * 251658240
                      )
                    ) * 4
                  ) // "__dpsql_of1"
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 4) AS "__dpsql_m1",
      GREATEST(
        -351843720888320000,
        LEAST(
          351843720888320000,
          CASE
            WHEN "__dpsql_of1" <= 4
            THEN (
              CAST(GREATEST(0, LEAST(703687441776640000, COALESCE("__dpsql_of2", 0))) AS BIGINT) - (
                LEAST("__dpsql_of1", 4) * 87960930222080000
              )
            )
            ELSE CAST(GREATEST(
              -351843720888320000,
              LEAST(
                351843720888320000,
                (
                  (
                    (
                      COALESCE("__dpsql_of2", 0) - (
                        CAST("__dpsql_of1" AS INT128) * 87960930222080000
                      )
                    ) * 4
                  ) // "__dpsql_of1"
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m2",
      GREATEST(
        -52,
        LEAST(
          52,
          CASE
            WHEN "__dpsql_of4" <= 4
            THEN (
              CAST(GREATEST(-20, LEAST(80, COALESCE("__dpsql_of3", 0))) AS BIGINT) - (
                LEAST("__dpsql_of4", 4) * 7
              )
            )
            ELSE CAST(GREATEST(
              -52,
              LEAST(
                52,
                (
                  (
                    (
                      COALESCE("__dpsql_of3", 0) - (
                        "__dpsql_of4" * 7
                      )
                    ) * 4
                  ) // "__dpsql_of4"
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m3",
      LEAST("__dpsql_of4", 4) AS "__dpsql_m4",
      GREATEST(
        -340,
        LEAST(
          340,
          CASE
            WHEN "__dpsql_of4" <= 4
            THEN (
              CAST(GREATEST(0, LEAST(676, COALESCE("__dpsql_of5", 0))) AS BIGINT) - (
                LEAST("__dpsql_of4", 4) * 84
              )
            )
            ELSE CAST(GREATEST(
              -340,
              LEAST(
                340,
                (
                  (
                    (
                      COALESCE("__dpsql_of5", 0) - (
                        "__dpsql_of4" * 84
                      )
                    ) * 4
                  ) // "__dpsql_of4"
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m5",
      LEAST("__dpsql_of6", 1) AS "__dpsql_m6"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        SUM("__dpsql_m2") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2",
        SUM("__dpsql_m3") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of3",
        COUNT("__dpsql_m3") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of4",
        SUM("__dpsql_m5") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of5",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of6"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          "__dpsql_m0",
          "__dpsql_m3",
          (
            (
              "__dpsql_m0" - 251658240
            ) * (
              "__dpsql_m0" - 251658240
            )
          ) AS "__dpsql_m2",
          (
            (
              "__dpsql_m3" - 7
            ) * (
              "__dpsql_m3" - 7
            )
          ) AS "__dpsql_m5"
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
            END AS "__dpsql_m0",
            CASE
              WHEN "__dpsql_m3" <= -5
              THEN -5
              WHEN "__dpsql_m3" >= 20
              THEN 20
              ELSE TRY_CAST("__dpsql_m3" AS BIGINT)
            END AS "__dpsql_m3"
          FROM (
            SELECT
              "Uid" AS "__dpsql_unit",
              "k" AS "__dpsql_k0",
              "x" AS "__dpsql_m0",
              "n" AS "__dpsql_m3"
            FROM "visits"
            WHERE
              NOT "Uid" IS NULL
          )
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

-- postgresql: 763ba9a5a9304c5c
-- spark: ca28a54403004da1

-- title: A sum with a FILTER
-- world: small
SELECT k, SUM(n) FILTER (WHERE s = 'x') FROM visits GROUP BY k;

-- __dpsql_released_0, as one: b6412da4fb552c2b
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(-50, LEAST(200, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN "__dpsql_m0" <= -5
            THEN -5
            WHEN "__dpsql_m0" >= 20
            THEN 20
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            CASE WHEN "s" = 'x' THEN "n" END AS "__dpsql_m0"
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

-- postgresql: f18b2fc08ea82d98
-- spark: ae94a20b8f1be327

-- title: A sum with bounds of its own, for each row
-- world: small
SELECT k, SUM(n, contribution_bounds_per_row => (0, 3)) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: eb21c97eca36dd3a
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(0, LEAST(30, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN "__dpsql_m0" <= 0
            THEN 0
            WHEN "__dpsql_m0" >= 3
            THEN 3
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "n" AS "__dpsql_m0"
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

-- postgresql: 2a9897287c51b456
-- spark: 84fe89147d1e1a01

-- title: A sum bounded for each unit and group
-- world: small
SELECT k, SUM(x, contribution_bounds_per_group => (0, 30)) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: c3ed0b9210406f74
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 2048
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(0, LEAST(2013265920, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
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
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "x" AS "__dpsql_m0"
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

-- postgresql: 2cd6eeb11d3ffda0
-- spark: 892d03ab2e59508a

-- title: A sum bounded for each unit and group by bounds that leave out zero
-- world: small
SELECT k, SUM(x, contribution_bounds_per_group => (5, 30)) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 6a4e636f9110bed6
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 2048
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(CASE
        WHEN NOT "__dpsql_of0" IS NULL
        THEN GREATEST(335544320, LEAST(2013265920, "__dpsql_of0"))
      END AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
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
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "x" AS "__dpsql_m0"
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

-- postgresql: 50c8687399379019
-- spark: 66bf19d565e9ff1f

-- title: The sum of an expression that can fail on a row
-- world: small
SELECT k, SUM(n * n + CAST(s AS INTEGER), contribution_bounds_per_row => (0, 9)) FROM visits
GROUP BY k;

-- __dpsql_released_0, as one: dd4795f1289de4a1
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CAST(GREATEST(0, LEAST(90, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN "__dpsql_m0" <= 0
            THEN 0
            WHEN "__dpsql_m0" >= 9
            THEN 9
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            TRY("n" * "n" + TRY_CAST("s" AS INT)) AS "__dpsql_m0"
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

-- postgresql: bf1c28e844fb49eb
-- spark: 658672005e04e918

-- title: Several sums of the same values share their columns
-- world: small
SELECT SUM(n), AVG(n), COUNT(n), VARIANCE(n) FROM visits;

-- __dpsql_released_0, as one: 1188a45fd7a023c9
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3"
FROM (
  SELECT
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m2"), 0))) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3"
  FROM (
    SELECT
      "__dpsql_unit",
      CAST(GREATEST(-50, LEAST(200, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
      GREATEST(
        -130,
        LEAST(
          130,
          CASE
            WHEN COUNT("__dpsql_m0") <= 10
            THEN (
              CAST(GREATEST(-50, LEAST(200, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) - (
                LEAST(COUNT("__dpsql_m0"), 10) * 7
              )
            )
            ELSE CAST(GREATEST(
              -130,
              LEAST(
                130,
                (
                  (
                    (
                      COALESCE(SUM("__dpsql_m0"), 0) - (
                        COUNT("__dpsql_m0") * 7
                      )
                    ) * 10
                  ) // COUNT("__dpsql_m0")
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m1",
      LEAST(COUNT("__dpsql_m0"), 10) AS "__dpsql_m2",
      GREATEST(
        -850,
        LEAST(
          850,
          CASE
            WHEN COUNT("__dpsql_m0") <= 10
            THEN (
              CAST(GREATEST(0, LEAST(1690, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) - (
                LEAST(COUNT("__dpsql_m0"), 10) * 84
              )
            )
            ELSE CAST(GREATEST(
              -850,
              LEAST(
                850,
                (
                  (
                    (
                      COALESCE(SUM("__dpsql_m3"), 0) - (
                        COUNT("__dpsql_m0") * 84
                      )
                    ) * 10
                  ) // COUNT("__dpsql_m0")
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m3"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_m0",
        (
          (
            "__dpsql_m0" - 7
          ) * (
            "__dpsql_m0" - 7
          )
        ) AS "__dpsql_m3"
      FROM (
        SELECT
          "__dpsql_unit",
          CASE
            WHEN "__dpsql_m0" <= -5
            THEN -5
            WHEN "__dpsql_m0" >= 20
            THEN 20
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "n" AS "__dpsql_m0"
          FROM "visits"
          WHERE
            NOT "Uid" IS NULL
        )
      )
    )
    GROUP BY
      "__dpsql_unit"
  )
);

-- postgresql: d64807ee00f99e5b
-- spark: 0ee82ba4a8119b77

-- title: The average of the averages of units
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, AVG(x, contribution_bounds_per_group => (-1, 3)), AVG(x) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 5cfb83be68a44d96
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3",
  "__dpsql_m4"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m0"), 0) // 512
      ))
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m2"), 0) // 4096
      ))
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3",
    COUNT(*) AS "__dpsql_m4"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      CASE
        WHEN "__dpsql_of1" <= 0
        THEN 0
        ELSE (
          CAST(GREATEST(-268435456, LEAST(805306368, (
            COALESCE("__dpsql_of0", 0) // "__dpsql_of1"
          ))) AS BIGINT) - 268435456
        )
      END AS "__dpsql_m0",
      LEAST("__dpsql_of1", 1) AS "__dpsql_m1",
      GREATEST(
        -1677721600,
        LEAST(
          1677721600,
          CASE
            WHEN "__dpsql_of3" <= 4
            THEN (
              CAST(GREATEST(-671088640, LEAST(2684354560, COALESCE("__dpsql_of2", 0))) AS BIGINT) - (
                LEAST("__dpsql_of3", 4) * 251658240
              )
            )
            ELSE CAST(GREATEST(
              -1677721600,
              LEAST(
                1677721600,
                (
                  (
                    (
                      COALESCE("__dpsql_of2", 0) - (
                        CAST("__dpsql_of3" AS INT128) * 251658240
                      )
                    ) * 4
                  ) // "__dpsql_of3"
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m2",
      LEAST("__dpsql_of1", 4) AS "__dpsql_m3",
      LEAST("__dpsql_of4", 1) AS "__dpsql_m4"
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
        SUM("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        COUNT("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        SUM("__dpsql_m2") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2",
        COUNT("__dpsql_m2") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of3",
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of4"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE))
            THEN NULL
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= -2.5e0
            THEN -671088640
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 10.0e0
            THEN 2684354560
            ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 3.725290298461914e-09) AS BIGINT)
          END AS "__dpsql_m0",
          CASE
            WHEN ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE))
            THEN NULL
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= -2.5e0
            THEN -167772160
            WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 10.0e0
            THEN 671088640
            ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 1.4901161193847656e-08) AS BIGINT)
          END AS "__dpsql_m2"
        FROM (
          SELECT
            "Uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "x" AS "__dpsql_m0"
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
    "__dpsql_rank" <= 3
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: bf747eb5ace2e29b
-- spark: 5200f8943d17c1af

