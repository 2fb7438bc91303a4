-- title: Units, counted in rounds
-- world: small
-- with: 'max_groups_contributed': 'auto'
SELECT k, COUNT(DISTINCT uid) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: f8394d9813833c13
WITH "__dpsql_pairs" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    "__dpsql_k0",
    HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")) AS "__dpsql_order"
  FROM (
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
  )
), "__dpsql_groups" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER (ORDER BY "__dpsql_k0") AS "__dpsql_rid",
    "__dpsql_k0"
  FROM (
    SELECT DISTINCT
      "__dpsql_k0"
    FROM "__dpsql_pairs"
  )
), "__dpsql_staged" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    g."__dpsql_rid",
    "__dpsql_order"
  FROM "__dpsql_pairs" AS p
  JOIN "__dpsql_groups" AS g
    ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
), "__dpsql_staged_sizes" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    COUNT(*) AS "__dpsql_size"
  FROM "__dpsql_staged"
  GROUP BY
    "__dpsql_unit"
)
SELECT
  "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_weight",
  "__dpsql_enough"
FROM "__dpsql_groups"
JOIN (
  SELECT
    "__dpsql_rid",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_weight",
    CASE WHEN COUNT(*) >= 1 THEN 1 ELSE 0 END AS "__dpsql_enough"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_weight"
    FROM "__dpsql_staged"
    JOIN (
      SELECT
        "__dpsql_unit",
        CASE
          WHEN "__dpsql_size" <= 1
          THEN 65536
          ELSE CAST(FLOOR(SQRT((
            4294967296 // "__dpsql_size"
          ))) AS BIGINT)
        END AS "__dpsql_weight"
      FROM "__dpsql_staged_sizes"
      WHERE
        "__dpsql_size" <= 3000
    )
      USING ("__dpsql_unit")
    UNION ALL
    SELECT
      "__dpsql_rid",
      1196
    FROM (
      SELECT
        "__dpsql_rid",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_unit" ORDER BY "__dpsql_order", "__dpsql_rid") AS "__dpsql_rank"
      FROM "__dpsql_staged"
      JOIN (
        SELECT
          "__dpsql_unit"
        FROM "__dpsql_staged_sizes"
        WHERE
          "__dpsql_size" > 3000
      )
        USING ("__dpsql_unit")
    )
    WHERE
      "__dpsql_rank" <= 3000
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid");

-- __dpsql_released_0, named groups: 5d7187d6e0612aa7
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, what is left: 4baab45aa19e89c0
SELECT
  "__dpsql_unit",
  "__dpsql_rid",
  "__dpsql_order"
FROM "__dpsql_staged" AS p
ANTI JOIN "__dpsql_named" AS g
  ON (
    p."__dpsql_rid" = g."__dpsql_rid"
  );

-- __dpsql_released_0, what is counted: 82a17d3240a1e602
SELECT
  "__dpsql_unit",
  "__dpsql_rid",
  "__dpsql_order"
FROM "__dpsql_staged" AS p
SEMI JOIN "__dpsql_named" AS g
  ON (
    p."__dpsql_rid" = g."__dpsql_rid"
  );

-- __dpsql_released_0, a look: 4721a7619e523025
SELECT
  "__dpsql_size",
  COUNT(*) AS "__dpsql_units"
FROM "__dpsql_staged_sizes"
GROUP BY
  "__dpsql_size";

-- __dpsql_released_0, a round: a703ea375342ad67
SELECT
  "__dpsql_rid",
  CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_weight",
  CASE WHEN COUNT(*) >= 1 THEN 1 ELSE 0 END AS "__dpsql_enough"
FROM (
  SELECT
    "__dpsql_rid",
    "__dpsql_weight"
  FROM "__dpsql_left"
  JOIN (
    SELECT
      "__dpsql_unit",
      CASE
        WHEN "__dpsql_size" <= 1
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          4294967296 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM "__dpsql_left_sizes"
    WHERE
      "__dpsql_size" <= 30
  )
    USING ("__dpsql_unit")
  UNION ALL
  SELECT
    "__dpsql_rid",
    11965
  FROM (
    SELECT
      "__dpsql_rid",
      ROW_NUMBER() OVER (PARTITION BY "__dpsql_unit" ORDER BY "__dpsql_order", "__dpsql_rid") AS "__dpsql_rank"
    FROM "__dpsql_left"
    JOIN (
      SELECT
        "__dpsql_unit"
      FROM "__dpsql_left_sizes"
      WHERE
        "__dpsql_size" > 30
    )
      USING ("__dpsql_unit")
  )
  WHERE
    "__dpsql_rank" <= 30
)
GROUP BY
  "__dpsql_rid";

-- __dpsql_released_0, counting: 8fe071260fe93c69
SELECT
  "__dpsql_rid",
  CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight_of_units"))) AS BIGINT) AS "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_rid",
    "__dpsql_weight_of_units"
  FROM "__dpsql_counted"
  JOIN (
    SELECT
      "__dpsql_unit",
      CASE
        WHEN "__dpsql_size" <= 20
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          85899345920 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight_of_units"
    FROM "__dpsql_counted_sizes"
  )
    USING ("__dpsql_unit")
)
GROUP BY
  "__dpsql_rid";

-- postgresql: 2d0521ed8eac7514
-- spark: b348d403a829bd0d

-- title: Rows and sums of named groups, with a minimum of units
-- world: small
-- with: 'max_groups_contributed': 'auto', 'min_units_per_group': 5
SELECT k, s, COUNT(*), AVG(x) FROM visits WHERE n > 3 GROUP BY k, s;

-- __dpsql_released_0, as one: 2e26e9f8f4745fd3
WITH "__dpsql_pairs" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    "__dpsql_k0",
    "__dpsql_k1",
    "__dpsql_m0",
    "__dpsql_m1",
    "__dpsql_m2",
    HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1")) AS "__dpsql_order"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_k1",
      LEAST(COUNT(*), 10) AS "__dpsql_m0",
      GREATEST(
        -4194304000,
        LEAST(
          4194304000,
          CASE
            WHEN COUNT("__dpsql_m1") <= 10
            THEN (
              CAST(GREATEST(-1677721600, LEAST(6710886400, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) - (
                LEAST(COUNT("__dpsql_m1"), 10) * 251658240
              )
            )
            ELSE CAST(GREATEST(
              -4194304000,
              LEAST(
                4194304000,
                (
                  (
                    (
                      COALESCE(SUM("__dpsql_m1"), 0) - (
                        CAST(COUNT("__dpsql_m1") AS INT128) * 251658240
                      )
                    ) * 10
                  ) // COUNT("__dpsql_m1")
                )
              )
            ) AS BIGINT)
          END
        )
      ) AS "__dpsql_m1",
      LEAST(COUNT("__dpsql_m1"), 10) AS "__dpsql_m2",
      LEAST(COUNT(*), 1) AS "__dpsql_m3"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_k0",
        "__dpsql_k1",
        CASE
          WHEN ISNAN(TRY_CAST("__dpsql_m1" AS DOUBLE))
          THEN NULL
          WHEN TRY_CAST("__dpsql_m1" AS DOUBLE) <= -2.5e0
          THEN -167772160
          WHEN TRY_CAST("__dpsql_m1" AS DOUBLE) >= 10.0e0
          THEN 671088640
          ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m1" AS DOUBLE) / 1.4901161193847656e-08) AS BIGINT)
        END AS "__dpsql_m1"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "k" AS "__dpsql_k0",
          "s" AS "__dpsql_k1",
          "x" AS "__dpsql_m1"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL AND (
            "n" > 3
          )
      )
    )
    GROUP BY
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_k1"
  )
), "__dpsql_groups" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER (ORDER BY "__dpsql_k0", "__dpsql_k1") AS "__dpsql_rid",
    "__dpsql_k0",
    "__dpsql_k1"
  FROM (
    SELECT DISTINCT
      "__dpsql_k0",
      "__dpsql_k1"
    FROM "__dpsql_pairs"
  )
), "__dpsql_staged" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    g."__dpsql_rid",
    "__dpsql_order",
    "__dpsql_m0",
    "__dpsql_m1",
    "__dpsql_m2"
  FROM "__dpsql_pairs" AS p
  JOIN "__dpsql_groups" AS g
    ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
    AND p."__dpsql_k1" IS NOT DISTINCT FROM g."__dpsql_k1"
), "__dpsql_staged_sizes" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    COUNT(*) AS "__dpsql_size"
  FROM "__dpsql_staged"
  GROUP BY
    "__dpsql_unit"
)
SELECT
  "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_weight",
  "__dpsql_enough"
FROM "__dpsql_groups"
JOIN (
  SELECT
    "__dpsql_rid",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_weight",
    CASE WHEN COUNT(*) >= 5 THEN 1 ELSE 0 END AS "__dpsql_enough"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_weight"
    FROM "__dpsql_staged"
    JOIN (
      SELECT
        "__dpsql_unit",
        CASE
          WHEN "__dpsql_size" <= 1
          THEN 65536
          ELSE CAST(FLOOR(SQRT((
            4294967296 // "__dpsql_size"
          ))) AS BIGINT)
        END AS "__dpsql_weight"
      FROM "__dpsql_staged_sizes"
      WHERE
        "__dpsql_size" <= 3000
    )
      USING ("__dpsql_unit")
    UNION ALL
    SELECT
      "__dpsql_rid",
      1196
    FROM (
      SELECT
        "__dpsql_rid",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_unit" ORDER BY "__dpsql_order", "__dpsql_rid") AS "__dpsql_rank"
      FROM "__dpsql_staged"
      JOIN (
        SELECT
          "__dpsql_unit"
        FROM "__dpsql_staged_sizes"
        WHERE
          "__dpsql_size" > 3000
      )
        USING ("__dpsql_unit")
    )
    WHERE
      "__dpsql_rank" <= 3000
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid");

-- __dpsql_released_0, named groups: 5d7187d6e0612aa7
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, what is left: 9fb29aff50d50aeb
SELECT
  "__dpsql_unit",
  "__dpsql_rid",
  "__dpsql_order",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2"
FROM "__dpsql_staged" AS p
ANTI JOIN "__dpsql_named" AS g
  ON (
    p."__dpsql_rid" = g."__dpsql_rid"
  );

-- __dpsql_released_0, what is counted: 4631cbd55c783203
SELECT
  "__dpsql_unit",
  "__dpsql_rid",
  "__dpsql_order",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2"
FROM "__dpsql_staged" AS p
SEMI JOIN "__dpsql_named" AS g
  ON (
    p."__dpsql_rid" = g."__dpsql_rid"
  );

-- __dpsql_released_0, a look: 4721a7619e523025
SELECT
  "__dpsql_size",
  COUNT(*) AS "__dpsql_units"
FROM "__dpsql_staged_sizes"
GROUP BY
  "__dpsql_size";

-- __dpsql_released_0, a round: 92573b03120f7cc5
SELECT
  "__dpsql_rid",
  CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_weight",
  CASE WHEN COUNT(*) >= 5 THEN 1 ELSE 0 END AS "__dpsql_enough"
FROM (
  SELECT
    "__dpsql_rid",
    "__dpsql_weight"
  FROM "__dpsql_left"
  JOIN (
    SELECT
      "__dpsql_unit",
      CASE
        WHEN "__dpsql_size" <= 1
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          4294967296 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM "__dpsql_left_sizes"
    WHERE
      "__dpsql_size" <= 30
  )
    USING ("__dpsql_unit")
  UNION ALL
  SELECT
    "__dpsql_rid",
    11965
  FROM (
    SELECT
      "__dpsql_rid",
      ROW_NUMBER() OVER (PARTITION BY "__dpsql_unit" ORDER BY "__dpsql_order", "__dpsql_rid") AS "__dpsql_rank"
    FROM "__dpsql_left"
    JOIN (
      SELECT
        "__dpsql_unit"
      FROM "__dpsql_left_sizes"
      WHERE
        "__dpsql_size" > 30
    )
      USING ("__dpsql_unit")
  )
  WHERE
    "__dpsql_rank" <= 30
)
GROUP BY
  "__dpsql_rid";

-- __dpsql_released_0, norms: 08f10579de1b43b1
SELECT
  "__dpsql_square",
  COUNT(*) AS "__dpsql_units"
FROM (
  SELECT
    CAST(GREATEST(1, LEAST(16384, (
      (
        "__dpsql_squares" + 65535
      ) // 65536
    ))) AS BIGINT) AS "__dpsql_square"
  FROM (
    SELECT
      "__dpsql_unit",
      GREATEST(
        GREATEST(
          SUM(
            (
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m0", 0), (
                          COALESCE("__dpsql_m0", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              ) * GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m0", 0), (
                          COALESCE("__dpsql_m0", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              )
            )
          ),
          SUM(
            (
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m1", 0), (
                          COALESCE("__dpsql_m1", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 4194303999
                    ) // 4194304000
                  )
                )
              ) * GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m1", 0), (
                          COALESCE("__dpsql_m1", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 4194303999
                    ) // 4194304000
                  )
                )
              )
            )
          )
        ),
        SUM(
          (
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m2", 0), (
                        COALESCE("__dpsql_m2", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            ) * GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m2", 0), (
                        COALESCE("__dpsql_m2", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            )
          )
        )
      ) AS "__dpsql_squares",
      GREATEST(
        GREATEST(
          SUM(
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m0", 0), (
                        COALESCE("__dpsql_m0", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            )
          ),
          SUM(
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m1", 0), (
                        COALESCE("__dpsql_m1", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 4194303999
                  ) // 4194304000
                )
              )
            )
          )
        ),
        SUM(
          GREATEST(
            0,
            LEAST(
              256,
              (
                (
                  (
                    GREATEST(COALESCE("__dpsql_m2", 0), (
                      COALESCE("__dpsql_m2", 0) * (
                        -1
                      )
                    )) * 256
                  ) + 9
                ) // 10
              )
            )
          )
        )
      ) AS "__dpsql_sums"
    FROM "__dpsql_counted"
    GROUP BY
      "__dpsql_unit"
  )
)
GROUP BY
  "__dpsql_square";

-- __dpsql_released_0, shares of norms: b4270d5351eb2820
SELECT
  CAST(COALESCE(SUM("__dpsql_share"), 0) AS BIGINT) AS "__dpsql_share"
FROM (
  SELECT
    CASE
      WHEN "__dpsql_squares" <= 65536
      THEN 0
      ELSE CAST(GREATEST(
        0,
        LEAST(
          65536,
          (
            CAST((
              CAST(FLOOR(SQRT(CAST(GREATEST(0, LEAST(1073741824, "__dpsql_squares")) AS BIGINT))) AS BIGINT) * 65536
            ) AS INT128) // GREATEST(1, LEAST(CAST('1180591620717411303424' AS INT128), "__dpsql_sums"))
          )
        )
      ) AS BIGINT)
    END AS "__dpsql_share"
  FROM (
    SELECT
      "__dpsql_unit",
      GREATEST(
        GREATEST(
          SUM(
            (
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m0", 0), (
                          COALESCE("__dpsql_m0", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              ) * GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m0", 0), (
                          COALESCE("__dpsql_m0", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              )
            )
          ),
          SUM(
            (
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m1", 0), (
                          COALESCE("__dpsql_m1", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 4194303999
                    ) // 4194304000
                  )
                )
              ) * GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m1", 0), (
                          COALESCE("__dpsql_m1", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 4194303999
                    ) // 4194304000
                  )
                )
              )
            )
          )
        ),
        SUM(
          (
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m2", 0), (
                        COALESCE("__dpsql_m2", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            ) * GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m2", 0), (
                        COALESCE("__dpsql_m2", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            )
          )
        )
      ) AS "__dpsql_squares",
      GREATEST(
        GREATEST(
          SUM(
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m0", 0), (
                        COALESCE("__dpsql_m0", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            )
          ),
          SUM(
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m1", 0), (
                        COALESCE("__dpsql_m1", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 4194303999
                  ) // 4194304000
                )
              )
            )
          )
        ),
        SUM(
          GREATEST(
            0,
            LEAST(
              256,
              (
                (
                  (
                    GREATEST(COALESCE("__dpsql_m2", 0), (
                      COALESCE("__dpsql_m2", 0) * (
                        -1
                      )
                    )) * 256
                  ) + 9
                ) // 10
              )
            )
          )
        )
      ) AS "__dpsql_sums"
    FROM "__dpsql_counted"
    GROUP BY
      "__dpsql_unit"
  )
);

-- __dpsql_released_0, counting: fa592e8fb4946ffa
SELECT
  "__dpsql_rid",
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
    LEAST(4611686018427387904, COALESCE(SUM((
      "__dpsql_m2" * "__dpsql_weight"
    )), 0))
  ) AS BIGINT) AS "__dpsql_m2"
FROM (
  SELECT
    "__dpsql_rid",
    "__dpsql_m0",
    "__dpsql_m1",
    "__dpsql_m2",
    "__dpsql_weight"
  FROM "__dpsql_counted"
  JOIN (
    SELECT
      "__dpsql_unit",
      CASE
        WHEN "__dpsql_squares" <= 655360
        THEN 65536
        ELSE CAST(FLOOR(SQRT(CAST((
          2814749767106560 // "__dpsql_squares"
        ) AS BIGINT))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM "__dpsql_counted_sizes"
    JOIN (
      SELECT
        "__dpsql_unit",
        GREATEST(
          GREATEST(
            SUM(
              (
                GREATEST(
                  0,
                  LEAST(
                    256,
                    (
                      (
                        (
                          GREATEST(COALESCE("__dpsql_m0", 0), (
                            COALESCE("__dpsql_m0", 0) * (
                              -1
                            )
                          )) * 256
                        ) + 9
                      ) // 10
                    )
                  )
                ) * GREATEST(
                  0,
                  LEAST(
                    256,
                    (
                      (
                        (
                          GREATEST(COALESCE("__dpsql_m0", 0), (
                            COALESCE("__dpsql_m0", 0) * (
                              -1
                            )
                          )) * 256
                        ) + 9
                      ) // 10
                    )
                  )
                )
              )
            ),
            SUM(
              (
                GREATEST(
                  0,
                  LEAST(
                    256,
                    (
                      (
                        (
                          GREATEST(COALESCE("__dpsql_m1", 0), (
                            COALESCE("__dpsql_m1", 0) * (
                              -1
                            )
                          )) * 256
                        ) + 4194303999
                      ) // 4194304000
                    )
                  )
                ) * GREATEST(
                  0,
                  LEAST(
                    256,
                    (
                      (
                        (
                          GREATEST(COALESCE("__dpsql_m1", 0), (
                            COALESCE("__dpsql_m1", 0) * (
                              -1
                            )
                          )) * 256
                        ) + 4194303999
                      ) // 4194304000
                    )
                  )
                )
              )
            )
          ),
          SUM(
            (
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m2", 0), (
                          COALESCE("__dpsql_m2", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              ) * GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m2", 0), (
                          COALESCE("__dpsql_m2", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              )
            )
          )
        ) AS "__dpsql_squares",
        GREATEST(
          GREATEST(
            SUM(
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m0", 0), (
                          COALESCE("__dpsql_m0", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 9
                    ) // 10
                  )
                )
              )
            ),
            SUM(
              GREATEST(
                0,
                LEAST(
                  256,
                  (
                    (
                      (
                        GREATEST(COALESCE("__dpsql_m1", 0), (
                          COALESCE("__dpsql_m1", 0) * (
                            -1
                          )
                        )) * 256
                      ) + 4194303999
                    ) // 4194304000
                  )
                )
              )
            )
          ),
          SUM(
            GREATEST(
              0,
              LEAST(
                256,
                (
                  (
                    (
                      GREATEST(COALESCE("__dpsql_m2", 0), (
                        COALESCE("__dpsql_m2", 0) * (
                          -1
                        )
                      )) * 256
                    ) + 9
                  ) // 10
                )
              )
            )
          )
        ) AS "__dpsql_sums"
      FROM "__dpsql_counted"
      GROUP BY
        "__dpsql_unit"
    )
      USING ("__dpsql_unit")
  )
    USING ("__dpsql_unit")
)
GROUP BY
  "__dpsql_rid";

-- postgresql: 5f255778cd43c573
-- spark: 2f33cfa00a0182ea

-- title: Keys alone, named in rounds
-- world: small
-- with: 'max_groups_contributed': 'auto'
SELECT DISTINCT s FROM visits;

-- __dpsql_released_0, as one: 6ca59b9dc894c6a6
WITH "__dpsql_pairs" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    "__dpsql_k0",
    HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")) AS "__dpsql_order"
  FROM (
    SELECT DISTINCT
      "__dpsql_unit",
      "__dpsql_k0"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "s" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
  )
), "__dpsql_groups" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER (ORDER BY HASH(HASH(7, "__dpsql_k0")), "__dpsql_k0") AS "__dpsql_rid",
    "__dpsql_k0"
  FROM (
    SELECT DISTINCT
      "__dpsql_k0"
    FROM "__dpsql_pairs"
  )
), "__dpsql_staged" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    g."__dpsql_rid",
    "__dpsql_order"
  FROM "__dpsql_pairs" AS p
  JOIN "__dpsql_groups" AS g
    ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
), "__dpsql_staged_sizes" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    COUNT(*) AS "__dpsql_size"
  FROM "__dpsql_staged"
  GROUP BY
    "__dpsql_unit"
)
SELECT
  "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_weight",
  "__dpsql_enough"
FROM "__dpsql_groups"
JOIN (
  SELECT
    "__dpsql_rid",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_weight",
    CASE WHEN COUNT(*) >= 1 THEN 1 ELSE 0 END AS "__dpsql_enough"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_weight"
    FROM "__dpsql_staged"
    JOIN (
      SELECT
        "__dpsql_unit",
        CASE
          WHEN "__dpsql_size" <= 1
          THEN 65536
          ELSE CAST(FLOOR(SQRT((
            4294967296 // "__dpsql_size"
          ))) AS BIGINT)
        END AS "__dpsql_weight"
      FROM "__dpsql_staged_sizes"
      WHERE
        "__dpsql_size" <= 3000
    )
      USING ("__dpsql_unit")
    UNION ALL
    SELECT
      "__dpsql_rid",
      1196
    FROM (
      SELECT
        "__dpsql_rid",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_unit" ORDER BY "__dpsql_order", "__dpsql_rid") AS "__dpsql_rank"
      FROM "__dpsql_staged"
      JOIN (
        SELECT
          "__dpsql_unit"
        FROM "__dpsql_staged_sizes"
        WHERE
          "__dpsql_size" > 3000
      )
        USING ("__dpsql_unit")
    )
    WHERE
      "__dpsql_rank" <= 3000
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid");

-- __dpsql_released_0, named groups: 5d7187d6e0612aa7
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, what is left: 4baab45aa19e89c0
SELECT
  "__dpsql_unit",
  "__dpsql_rid",
  "__dpsql_order"
FROM "__dpsql_staged" AS p
ANTI JOIN "__dpsql_named" AS g
  ON (
    p."__dpsql_rid" = g."__dpsql_rid"
  );

-- __dpsql_released_0, what is counted: 82a17d3240a1e602
SELECT
  "__dpsql_unit",
  "__dpsql_rid",
  "__dpsql_order"
FROM "__dpsql_staged" AS p
SEMI JOIN "__dpsql_named" AS g
  ON (
    p."__dpsql_rid" = g."__dpsql_rid"
  );

-- __dpsql_released_0, a look: 4721a7619e523025
SELECT
  "__dpsql_size",
  COUNT(*) AS "__dpsql_units"
FROM "__dpsql_staged_sizes"
GROUP BY
  "__dpsql_size";

-- __dpsql_released_0, a round: a703ea375342ad67
SELECT
  "__dpsql_rid",
  CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_weight",
  CASE WHEN COUNT(*) >= 1 THEN 1 ELSE 0 END AS "__dpsql_enough"
FROM (
  SELECT
    "__dpsql_rid",
    "__dpsql_weight"
  FROM "__dpsql_left"
  JOIN (
    SELECT
      "__dpsql_unit",
      CASE
        WHEN "__dpsql_size" <= 1
        THEN 65536
        ELSE CAST(FLOOR(SQRT((
          4294967296 // "__dpsql_size"
        ))) AS BIGINT)
      END AS "__dpsql_weight"
    FROM "__dpsql_left_sizes"
    WHERE
      "__dpsql_size" <= 30
  )
    USING ("__dpsql_unit")
  UNION ALL
  SELECT
    "__dpsql_rid",
    11965
  FROM (
    SELECT
      "__dpsql_rid",
      ROW_NUMBER() OVER (PARTITION BY "__dpsql_unit" ORDER BY "__dpsql_order", "__dpsql_rid") AS "__dpsql_rank"
    FROM "__dpsql_left"
    JOIN (
      SELECT
        "__dpsql_unit"
      FROM "__dpsql_left_sizes"
      WHERE
        "__dpsql_size" > 30
    )
      USING ("__dpsql_unit")
  )
  WHERE
    "__dpsql_rank" <= 30
)
GROUP BY
  "__dpsql_rid";

-- __dpsql_released_0, units in order: b5b305fac5b1cea1
SELECT
  "__dpsql_unit",
  ROW_NUMBER() OVER (ORDER BY HASH(HASH(7, "__dpsql_unit")), "__dpsql_unit") - 1 AS "__dpsql_position"
FROM "__dpsql_staged_sizes";

-- __dpsql_released_0, pairs in order: dff2a3d6ffdad619
SELECT
  "__dpsql_position",
  "__dpsql_rid"
FROM "__dpsql_staged"
JOIN "__dpsql_units"
  USING ("__dpsql_unit")
ORDER BY
  "__dpsql_position",
  "__dpsql_rid";

-- postgresql: de257372169c0f3a
-- spark: d64067034b9e4fcc

