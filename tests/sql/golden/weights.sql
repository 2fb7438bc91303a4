-- title: Weighted units, counted
-- world: small
-- with: 'contribution_bounding': 'weight', 'max_groups_contributed': 4
SELECT k, COUNT(DISTINCT uid) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 1594887306a86653
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0"
FROM (
  WITH "__dpsql_pairs" AS MATERIALIZED (
    SELECT DISTINCT
      "__dpsql_unit",
      "__dpsql_k0"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  ), "__dpsql_sizes" AS MATERIALIZED (
    SELECT
      "__dpsql_unit",
      COUNT(*) AS "__dpsql_size"
    FROM "__dpsql_pairs"
    GROUP BY
      "__dpsql_unit"
    HAVING
      COUNT(*) > 4
  )
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_m0"
  FROM (
    SELECT
      "__dpsql_k0",
      CASE
        WHEN "__dpsql_size" <= 4
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          17179869184 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM (
      SELECT
        "__dpsql_k0",
        COALESCE("__dpsql_size", 4) AS "__dpsql_size"
      FROM "__dpsql_pairs"
      LEFT JOIN "__dpsql_sizes"
        USING ("__dpsql_unit")
      WHERE
        COALESCE("__dpsql_size", 4) <= 28
      UNION ALL
      SELECT
        "__dpsql_k0",
        28 AS "__dpsql_size"
      FROM (
        SELECT
          *,
          DENSE_RANK() OVER (
            PARTITION BY "__dpsql_unit"
            ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          ) AS "__dpsql_rank"
        FROM (
          SELECT
            *
          FROM "__dpsql_pairs"
          JOIN (
            SELECT
              "__dpsql_unit"
            FROM "__dpsql_sizes"
            WHERE
              "__dpsql_size" > 28
          )
            USING ("__dpsql_unit")
        )
      )
      WHERE
        "__dpsql_rank" <= 28
    )
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 48cfe78529ae441c
-- spark: bfc48e9ad00ac4ee

-- title: Weighted units, rows and sums
-- world: small
-- with: 'contribution_bounding': 'weight', 'max_groups_contributed': 4, 'max_rows_contributed': 5
SELECT s, COUNT(*), SUM(x), AVG(n) FROM visits GROUP BY s;

-- __dpsql_released_0, as one: effd29348bcac79a
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3",
  "__dpsql_m4"
FROM (
  WITH "__dpsql_pairs" AS MATERIALIZED (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      LEAST(COUNT(*), 5) AS "__dpsql_m0",
      CAST(GREATEST(-838860800, LEAST(3355443200, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
      GREATEST(
        -65,
        LEAST(
          65,
          CASE
            WHEN COUNT("__dpsql_m2") <= 5
            THEN (
              CAST(GREATEST(-25, LEAST(100, COALESCE(SUM("__dpsql_m2"), 0))) AS BIGINT) - (
                LEAST(COUNT("__dpsql_m2"), 5) * 7
              )
            )
            ELSE CAST(GREATEST(
              -65,
              LEAST(
                65,
                (
                  (
                    (
                      COALESCE(SUM("__dpsql_m2"), 0) - (
                        COUNT("__dpsql_m2") * 7
                      )
                    ) * 5
                  ) // COUNT("__dpsql_m2")
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m2",
      LEAST(COUNT("__dpsql_m2"), 5) AS "__dpsql_m3",
      LEAST(COUNT(*), 1) AS "__dpsql_m4"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        CASE
          WHEN ISNAN(TRY_CAST("__dpsql_m1" AS DOUBLE))
          THEN NULL
          WHEN TRY_CAST("__dpsql_m1" AS DOUBLE) <= -2.5e0
          THEN -167772160
          WHEN TRY_CAST("__dpsql_m1" AS DOUBLE) >= 10.0e0
          THEN 671088640
          ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m1" AS DOUBLE) / 1.4901161193847656e-08) AS BIGINT)
        END AS "__dpsql_m1",
        CASE
          WHEN "__dpsql_m2" <= -5
          THEN -5
          WHEN "__dpsql_m2" >= 20
          THEN 20
          ELSE TRY_CAST("__dpsql_m2" AS BIGINT)
        END AS "__dpsql_m2"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "s" AS "__dpsql_k0",
          "x" AS "__dpsql_m1",
          "n" AS "__dpsql_m2"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
    )
    GROUP BY
      "__dpsql_unit",
      "__dpsql_k0"
  ), "__dpsql_sizes" AS MATERIALIZED (
    SELECT
      "__dpsql_unit",
      COUNT(*) AS "__dpsql_size"
    FROM "__dpsql_pairs"
    GROUP BY
      "__dpsql_unit"
    HAVING
      COUNT(*) > 4
  )
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM((
        "__dpsql_m0" * "__dpsql_weight"
      )), 0))
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(
        4611686018427387904,
        COALESCE(SUM((
          (
            "__dpsql_m1" * "__dpsql_weight"
          ) // 268435456
        )), 0)
      )
    ) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(
        4611686018427387904,
        COALESCE(SUM((
          (
            "__dpsql_m2" * "__dpsql_weight"
          ) // 8
        )), 0)
      )
    ) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, COALESCE(SUM((
        "__dpsql_m3" * "__dpsql_weight"
      )), 0))
    ) AS BIGINT) AS "__dpsql_m3",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_m4"
  FROM (
    SELECT
      "__dpsql_k0",
      "__dpsql_m0",
      "__dpsql_m1",
      "__dpsql_m2",
      "__dpsql_m3",
      CASE
        WHEN "__dpsql_size" <= 4
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          17179869184 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM (
      SELECT
        "__dpsql_k0",
        "__dpsql_m0",
        "__dpsql_m1",
        "__dpsql_m2",
        "__dpsql_m3",
        COALESCE("__dpsql_size", 4) AS "__dpsql_size"
      FROM "__dpsql_pairs"
      LEFT JOIN "__dpsql_sizes"
        USING ("__dpsql_unit")
      WHERE
        COALESCE("__dpsql_size", 4) <= 28
      UNION ALL
      SELECT
        "__dpsql_k0",
        "__dpsql_m0",
        "__dpsql_m1",
        "__dpsql_m2",
        "__dpsql_m3",
        28 AS "__dpsql_size"
      FROM (
        SELECT
          *,
          DENSE_RANK() OVER (
            PARTITION BY "__dpsql_unit"
            ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          ) AS "__dpsql_rank"
        FROM (
          SELECT
            *
          FROM "__dpsql_pairs"
          JOIN (
            SELECT
              "__dpsql_unit"
            FROM "__dpsql_sizes"
            WHERE
              "__dpsql_size" > 28
          )
            USING ("__dpsql_unit")
        )
      )
      WHERE
        "__dpsql_rank" <= 28
    )
  )
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 56c41be44f80f409
-- spark: 3fabeb148bc0cca5

-- title: Weighted units and a fewest number of units in a group
-- world: small
-- with: 'contribution_bounding': 'weight', 'min_units_per_group': 5
SELECT k, SUM(big) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: ef9f561d803d92f9
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  WITH "__dpsql_pairs" AS MATERIALIZED (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      CAST(GREATEST(0, LEAST(10000, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
      LEAST(COUNT(*), 1) AS "__dpsql_m1"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        CASE
          WHEN "__dpsql_m0" <= 0
          THEN 0
          WHEN "__dpsql_m0" >= 1000
          THEN 1000
          ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
        END AS "__dpsql_m0"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "k" AS "__dpsql_k0",
          "big" AS "__dpsql_m0"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
    )
    GROUP BY
      "__dpsql_unit",
      "__dpsql_k0"
  ), "__dpsql_sizes" AS MATERIALIZED (
    SELECT
      "__dpsql_unit",
      COUNT(*) AS "__dpsql_size"
    FROM "__dpsql_pairs"
    GROUP BY
      "__dpsql_unit"
    HAVING
      COUNT(*) > 10
  )
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(
        4611686018427387904,
        COALESCE(SUM((
          (
            "__dpsql_m0" * "__dpsql_weight"
          ) // 1024
        )), 0)
      )
    ) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_k0",
      "__dpsql_m0",
      CASE
        WHEN "__dpsql_size" <= 10
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          42949672960 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM (
      SELECT
        "__dpsql_k0",
        "__dpsql_m0",
        COALESCE("__dpsql_size", 10) AS "__dpsql_size"
      FROM "__dpsql_pairs"
      LEFT JOIN "__dpsql_sizes"
        USING ("__dpsql_unit")
      WHERE
        COALESCE("__dpsql_size", 10) <= 70
      UNION ALL
      SELECT
        "__dpsql_k0",
        "__dpsql_m0",
        70 AS "__dpsql_size"
      FROM (
        SELECT
          *,
          DENSE_RANK() OVER (
            PARTITION BY "__dpsql_unit"
            ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          ) AS "__dpsql_rank"
        FROM (
          SELECT
            *
          FROM "__dpsql_pairs"
          JOIN (
            SELECT
              "__dpsql_unit"
            FROM "__dpsql_sizes"
            WHERE
              "__dpsql_size" > 70
          )
            USING ("__dpsql_unit")
        )
      )
      WHERE
        "__dpsql_rank" <= 70
    )
  )
  GROUP BY
    "__dpsql_k0"
  HAVING
    COUNT(*) >= 5
);

-- postgresql: c68ace42d9d871e2
-- spark: b41436ba53062d60

