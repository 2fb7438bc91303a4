-- title: The sum of integers
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, SUM(n) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: ffbbea3e114a81c6
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
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-20, LEAST(80, "__dpsql_m0"))), 0))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 3
  GROUP BY
    "__dpsql_k0"
);

-- title: The sum of doubles
-- world: small
SELECT k, SUM(x) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 89320e91f432ccae
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(-1677721600, LEAST(6710886400, "__dpsql_m0"))), 0) // 8192
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: The sum of decimals
-- world: small
SELECT k, SUM(amount) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 8cd42d32c1d898e7
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(0, LEAST(8388608000, "__dpsql_m0"))), 0) // 8192
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: The sum over a large range, whose unit sums need a wide integer
-- world: small
-- with: 'max_rows_contributed': 1000000
SELECT k, SUM(wide * 1000) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 8fa0c5de416c322e
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(0, LEAST(1048576000000000, "__dpsql_m0"))), 0) // 1073741824
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: The average and its number of values
-- world: small
-- with: 'max_rows_contributed': 4
SELECT k, AVG(x), SUM(x), COUNT(x) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 0f33a92257e7c689
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(-1677721600, LEAST(1677721600, "__dpsql_m0"))), 0) // 4096
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(LEAST("__dpsql_m1", 4)), 0))
    ) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(-671088640, LEAST(2684354560, "__dpsql_m2"))), 0) // 4096
        )
      )
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(LEAST("__dpsql_m3", 4)), 0))
    ) AS BIGINT) AS "__dpsql_m3",
    COUNT(*) AS "__dpsql_m4"
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
          WHEN COUNT("__dpsql_m0") <= 4
          THEN (
            COALESCE(SUM("__dpsql_m0"), 0) - (
              CAST(COUNT("__dpsql_m0") AS INT128) * 251658240
            )
          )
          ELSE (
            (
              (
                COALESCE(SUM("__dpsql_m0"), 0) - (
                  CAST(COUNT("__dpsql_m0") AS INT128) * 251658240
                )
              ) * 4
            ) // COUNT("__dpsql_m0")
          )
        END AS "__dpsql_m0",
        COUNT("__dpsql_m1") AS "__dpsql_m1",
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m2",
        COUNT("__dpsql_m3") AS "__dpsql_m3",
        COUNT(*) AS "__dpsql_m4"
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
          CASE WHEN NOT ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE)) THEN 1 END AS "__dpsql_m1",
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: Variance and standard deviation
-- world: small
-- with: 'max_rows_contributed': 4
SELECT k, VAR_POP(x), STDDEV_SAMP(n) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: b089ac545cef3e95
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(-1677721600, LEAST(1677721600, "__dpsql_m0"))), 0) // 4096
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(LEAST("__dpsql_m1", 4)), 0))
    ) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(-351843720888320000, LEAST(351843720888320000, "__dpsql_m2"))), 0) // 1099511627776
        )
      )
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-52, LEAST(52, "__dpsql_m3"))), 0))
    ) AS BIGINT) AS "__dpsql_m3",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(LEAST("__dpsql_m4", 4)), 0))
    ) AS BIGINT) AS "__dpsql_m4",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-340, LEAST(340, "__dpsql_m5"))), 0))
    ) AS BIGINT) AS "__dpsql_m5",
    COUNT(*) AS "__dpsql_m6"
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
          WHEN COUNT("__dpsql_m0") <= 4
          THEN (
            COALESCE(SUM("__dpsql_m0"), 0) - (
              CAST(COUNT("__dpsql_m0") AS INT128) * 251658240
            )
          )
          ELSE (
            (
              (
                COALESCE(SUM("__dpsql_m0"), 0) - (
                  CAST(COUNT("__dpsql_m0") AS INT128) * 251658240
                )
              ) * 4
            ) // COUNT("__dpsql_m0")
          )
        END AS "__dpsql_m0",
        COUNT("__dpsql_m1") AS "__dpsql_m1",
        CASE
          WHEN COUNT("__dpsql_m2") <= 4
          THEN (
            COALESCE(SUM("__dpsql_m2"), 0) - (
              CAST(COUNT("__dpsql_m2") AS INT128) * 87960930222080000
            )
          )
          ELSE (
            (
              (
                COALESCE(SUM("__dpsql_m2"), 0) - (
                  CAST(COUNT("__dpsql_m2") AS INT128) * 87960930222080000
                )
              ) * 4
            ) // COUNT("__dpsql_m2")
          )
        END AS "__dpsql_m2",
        CASE
          WHEN COUNT("__dpsql_m3") <= 4
          THEN (
            COALESCE(SUM("__dpsql_m3"), 0) - (
              COUNT("__dpsql_m3") * 7
            )
          )
          ELSE (
            (
              (
                COALESCE(SUM("__dpsql_m3"), 0) - (
                  COUNT("__dpsql_m3") * 7
                )
              ) * 4
            ) // COUNT("__dpsql_m3")
          )
        END AS "__dpsql_m3",
        COUNT("__dpsql_m4") AS "__dpsql_m4",
        CASE
          WHEN COUNT("__dpsql_m5") <= 4
          THEN (
            COALESCE(SUM("__dpsql_m5"), 0) - (
              COUNT("__dpsql_m5") * 84
            )
          )
          ELSE (
            (
              (
                COALESCE(SUM("__dpsql_m5"), 0) - (
                  COUNT("__dpsql_m5") * 84
                )
              ) * 4
            ) // COUNT("__dpsql_m5")
          )
        END AS "__dpsql_m5",
        COUNT(*) AS "__dpsql_m6"
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
          CASE WHEN NOT ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE)) THEN 1 END AS "__dpsql_m1",
          (
            (
              CASE
                WHEN ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE))
                THEN NULL
                WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= -2.5e0
                THEN -167772160
                WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 10.0e0
                THEN 671088640
                ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 1.4901161193847656e-08) AS BIGINT)
              END - 251658240
            ) * (
              CASE
                WHEN ISNAN(TRY_CAST("__dpsql_m0" AS DOUBLE))
                THEN NULL
                WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) <= -2.5e0
                THEN -167772160
                WHEN TRY_CAST("__dpsql_m0" AS DOUBLE) >= 10.0e0
                THEN 671088640
                ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m0" AS DOUBLE) / 1.4901161193847656e-08) AS BIGINT)
              END - 251658240
            )
          ) AS "__dpsql_m2",
          CASE
            WHEN "__dpsql_m3" <= -5
            THEN -5
            WHEN "__dpsql_m3" >= 20
            THEN 20
            ELSE TRY_CAST("__dpsql_m3" AS BIGINT)
          END AS "__dpsql_m3",
          "__dpsql_m3" AS "__dpsql_m4",
          (
            (
              CASE
                WHEN "__dpsql_m3" <= -5
                THEN -5
                WHEN "__dpsql_m3" >= 20
                THEN 20
                ELSE TRY_CAST("__dpsql_m3" AS BIGINT)
              END - 7
            ) * (
              CASE
                WHEN "__dpsql_m3" <= -5
                THEN -5
                WHEN "__dpsql_m3" >= 20
                THEN 20
                ELSE TRY_CAST("__dpsql_m3" AS BIGINT)
              END - 7
            )
          ) AS "__dpsql_m5"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: A sum with a FILTER
-- world: small
SELECT k, SUM(n) FILTER (WHERE s = 'x') FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 5c0a1b4f6c5c14e1
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
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-50, LEAST(200, "__dpsql_m0"))), 0))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: A sum with bounds of its own, for each row
-- world: small
SELECT k, SUM(n, contribution_bounds_per_row => (0, 3)) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 1bd201802d57a6fc
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
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(0, LEAST(30, "__dpsql_m0"))), 0))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: A sum bounded for each unit and group
-- world: small
SELECT k, SUM(x, contribution_bounds_per_group => (0, 30)) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: c3fa3a47d27bcaba
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(SUM(GREATEST(0, LEAST(2013265920, "__dpsql_m0"))), 0) // 2048
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: A sum bounded for each unit and group by bounds that leave out zero
-- world: small
SELECT k, SUM(x, contribution_bounds_per_group => (5, 30)) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 0720c8bf989d0a73
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
      LEAST(
        4611686018427387904,
        (
          COALESCE(
            SUM(
              CASE
                WHEN NOT "__dpsql_m0" IS NULL
                THEN GREATEST(335544320, LEAST(2013265920, "__dpsql_m0"))
              END
            ),
            0
          ) // 2048
        )
      )
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        SUM("__dpsql_m0") AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: The sum of an expression that can fail on a row
-- world: small
SELECT k, SUM(n * n + CAST(s AS INTEGER), contribution_bounds_per_row => (0, 9)) FROM visits
GROUP BY k;

-- __dpsql_released_0, as one: a8909556aa7ff9e3
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
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(0, LEAST(90, "__dpsql_m0"))), 0))
    ) AS BIGINT) AS "__dpsql_m0",
    COUNT(*) AS "__dpsql_m1"
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
        COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
        COUNT(*) AS "__dpsql_m1"
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
      GROUP BY
        "__dpsql_unit",
        "__dpsql_k0"
    )
  )
  WHERE
    "__dpsql_rank" <= 10
  GROUP BY
    "__dpsql_k0"
);

-- title: Several sums of the same values share their columns
-- world: small
SELECT SUM(n), AVG(n), COUNT(n), VARIANCE(n) FROM visits;

-- __dpsql_released_0, as one: 9a10a949b2d95d0c
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3"
FROM (
  SELECT
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-50, LEAST(200, "__dpsql_m0"))), 0))
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-130, LEAST(130, "__dpsql_m1"))), 0))
    ) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(LEAST("__dpsql_m2", 10)), 0))
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM(GREATEST(-850, LEAST(850, "__dpsql_m3"))), 0))
    ) AS BIGINT) AS "__dpsql_m3"
  FROM (
    SELECT
      "__dpsql_unit",
      COALESCE(SUM("__dpsql_m0"), 0) AS "__dpsql_m0",
      CASE
        WHEN COUNT("__dpsql_m0") <= 10
        THEN (
          COALESCE(SUM("__dpsql_m0"), 0) - (
            COUNT("__dpsql_m0") * 7
          )
        )
        ELSE (
          (
            (
              COALESCE(SUM("__dpsql_m0"), 0) - (
                COUNT("__dpsql_m0") * 7
              )
            ) * 10
          ) // COUNT("__dpsql_m0")
        )
      END AS "__dpsql_m1",
      COUNT("__dpsql_m2") AS "__dpsql_m2",
      CASE
        WHEN COUNT("__dpsql_m3") <= 10
        THEN (
          COALESCE(SUM("__dpsql_m3"), 0) - (
            COUNT("__dpsql_m3") * 84
          )
        )
        ELSE (
          (
            (
              COALESCE(SUM("__dpsql_m3"), 0) - (
                COUNT("__dpsql_m3") * 84
              )
            ) * 10
          ) // COUNT("__dpsql_m3")
        )
      END AS "__dpsql_m3"
    FROM (
      SELECT
        "__dpsql_unit",
        CASE
          WHEN "__dpsql_m0" <= -5
          THEN -5
          WHEN "__dpsql_m0" >= 20
          THEN 20
          ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
        END AS "__dpsql_m0",
        "__dpsql_m0" AS "__dpsql_m2",
        (
          (
            CASE
              WHEN "__dpsql_m0" <= -5
              THEN -5
              WHEN "__dpsql_m0" >= 20
              THEN 20
              ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
            END - 7
          ) * (
            CASE
              WHEN "__dpsql_m0" <= -5
              THEN -5
              WHEN "__dpsql_m0" >= 20
              THEN 20
              ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
            END - 7
          )
        ) AS "__dpsql_m3"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "n" AS "__dpsql_m0"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
    )
    GROUP BY
      "__dpsql_unit"
  )
);

