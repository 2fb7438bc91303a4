-- title: Quantiles by key, under a cap
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, MEDIAN(n), COUNT(DISTINCT uid) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 41848239c8d4f23f
WITH "__dpsql_groups" AS MATERIALIZED (
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
  )
)
SELECT
  *
FROM "__dpsql_groups"
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d0"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            "__dpsql_k0",
            (
              CASE
                WHEN "__dpsql_value" <= -5
                THEN -5
                WHEN "__dpsql_value" >= 20
                THEN 20
                ELSE TRY_CAST("__dpsql_value" AS BIGINT)
              END - (
                -5
              )
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              *,
              DENSE_RANK() OVER (
                PARTITION BY "__dpsql_unit"
                ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
              ) AS "__dpsql_rank"
            FROM (
              SELECT
                "Uid" AS "__dpsql_unit",
                "k" AS "__dpsql_k0",
                "n" AS "__dpsql_value"
              FROM "visits"
              WHERE
                NOT "Uid" IS NULL
            )
          )
          WHERE
            "__dpsql_rank" <= 3
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 4
      OR (
        (
          (
            "__dpsql_number" * 4
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 4
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, stored groups: 5114edaf51365b77
SELECT
  "__dpsql_rid",
  "__dpsql_k0"
FROM "__dpsql_groups";

-- __dpsql_released_0, few chosen groups: 60ee4be1d0bb8bb5
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE list_contains(?::BIGINT[], "__dpsql_rid");

-- __dpsql_released_0, many chosen groups: eb65a92c2e8682a6
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, values 0: d22184511080b8e6
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", "__dpsql_k0", (CASE WHEN "__dpsql_value" <= -5 THEN -5 WHEN "__dpsql_value" >= 20 THEN 20 ELSE TRY_CAST("__dpsql_value" AS BIGINT) END - (-5)) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT *, dense_rank() OVER (PARTITION BY "__dpsql_unit" ORDER BY hash(hash(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0") AS "__dpsql_rank" FROM (SELECT "Uid" AS "__dpsql_unit", "k" AS "__dpsql_k0", "n" AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL)) WHERE "__dpsql_rank" <= 3) p JOIN "__dpsql_groups" g ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0" WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 4 OR ((("__dpsql_number" * 4) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 4) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: 72a9bb3cd4208ca5
-- spark: 5d68579a57910779

-- title: Quantiles of two columns, without a key
-- world: small
SELECT MEDIAN(x), QUANTILE_CONT(x, 0.9), QUANTILE_DISC(big, 0.5) FROM visits;

-- __dpsql_released_0, as one: 715f477b2841e357
WITH "__dpsql_groups" AS MATERIALIZED (
  SELECT
    1 AS "__dpsql_rid"
)
SELECT
  *
FROM "__dpsql_groups"
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d0"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            (
              CASE
                WHEN ISNAN(TRY_CAST("__dpsql_value" AS DOUBLE))
                THEN NULL
                WHEN TRY_CAST("__dpsql_value" AS DOUBLE) <= -2.5e0
                THEN -10240
                WHEN TRY_CAST("__dpsql_value" AS DOUBLE) >= 10.0e0
                THEN 40960
                ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_value" AS DOUBLE) / 0.000244140625e0) AS BIGINT)
              END - (
                -10240
              )
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              "Uid" AS "__dpsql_unit",
              "x" AS "__dpsql_value"
            FROM "visits"
            WHERE
              NOT "Uid" IS NULL
          )
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON TRUE
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 10
      OR (
        (
          (
            "__dpsql_number" * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d1"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            (
              CASE
                WHEN "__dpsql_value" <= 0
                THEN 0
                WHEN "__dpsql_value" >= 1000
                THEN 1000
                ELSE TRY_CAST("__dpsql_value" AS BIGINT)
              END - 0
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              "Uid" AS "__dpsql_unit",
              "big" AS "__dpsql_value"
            FROM "visits"
            WHERE
              NOT "Uid" IS NULL
          )
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON TRUE
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 10
      OR (
        (
          (
            "__dpsql_number" * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, stored groups: 835ee71f552a9066
SELECT
  "__dpsql_rid"
FROM "__dpsql_groups";

-- __dpsql_released_0, few chosen groups: a0447d4e909cf47b
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE list_contains(?::BIGINT[], "__dpsql_rid");

-- __dpsql_released_0, many chosen groups: 5d7187d6e0612aa7
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, values 0: 2152ab7a1d487f21
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", (CASE WHEN isnan(TRY_CAST("__dpsql_value" AS DOUBLE)) THEN NULL WHEN TRY_CAST("__dpsql_value" AS DOUBLE) <= -2.5e0 THEN -10240 WHEN TRY_CAST("__dpsql_value" AS DOUBLE) >= 10.0e0 THEN 40960 ELSE TRY_CAST(round(TRY_CAST("__dpsql_value" AS DOUBLE) / 0.000244140625e0) AS BIGINT) END - (-10240)) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT "Uid" AS "__dpsql_unit", "x" AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL)) p JOIN "__dpsql_groups" g ON TRUE WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 10 OR ((("__dpsql_number" * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- __dpsql_released_0, values 1: 0e8f5b2f8f24fece
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", (CASE WHEN "__dpsql_value" <= 0 THEN 0 WHEN "__dpsql_value" >= 1000 THEN 1000 ELSE TRY_CAST("__dpsql_value" AS BIGINT) END - 0) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT "Uid" AS "__dpsql_unit", "big" AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL)) p JOIN "__dpsql_groups" g ON TRUE WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 10 OR ((("__dpsql_number" * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: 54bdd6cc373e0b42
-- spark: a8d72842345dceb4

-- title: Quantiles over a known domain, and nothing else measured
-- world: small
SELECT c, MEDIAN(amount) FROM visits GROUP BY c;

-- __dpsql_released_0, as one: 7cc9eb983b51b051
WITH "__dpsql_groups" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER () AS "__dpsql_rid",
    "__dpsql_k0"
  FROM RANGE(1, 4) AS k0("__dpsql_k0")
)
SELECT
  *
FROM "__dpsql_groups"
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d0"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            "__dpsql_k0",
            (
              CASE
                WHEN TRY_CAST("__dpsql_value" AS DOUBLE) <= 0.0e0
                THEN 0
                WHEN TRY_CAST("__dpsql_value" AS DOUBLE) >= 100.0e0
                THEN 51200
                ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_value" AS DOUBLE) / 0.001953125e0) AS BIGINT)
              END - 0
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              *
            FROM (
              SELECT
                "Uid" AS "__dpsql_unit",
                LIST_POSITION(
                  [TRY_CAST('red' AS TEXT), TRY_CAST('green' AS TEXT), TRY_CAST('blue' AS TEXT)],
                  "c"
                ) AS "__dpsql_k0",
                "amount" AS "__dpsql_value"
              FROM "visits"
              WHERE
                NOT "Uid" IS NULL
            )
            WHERE
              NOT "__dpsql_k0" IS NULL
          )
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 10
      OR (
        (
          (
            "__dpsql_number" * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, stored groups: 5114edaf51365b77
SELECT
  "__dpsql_rid",
  "__dpsql_k0"
FROM "__dpsql_groups";

-- __dpsql_released_0, few chosen groups: 60ee4be1d0bb8bb5
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE list_contains(?::BIGINT[], "__dpsql_rid");

-- __dpsql_released_0, many chosen groups: eb65a92c2e8682a6
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, values 0: d5d1b885dc962750
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", "__dpsql_k0", (CASE WHEN TRY_CAST("__dpsql_value" AS DOUBLE) <= 0.0e0 THEN 0 WHEN TRY_CAST("__dpsql_value" AS DOUBLE) >= 100.0e0 THEN 51200 ELSE TRY_CAST(round(TRY_CAST("__dpsql_value" AS DOUBLE) / 0.001953125e0) AS BIGINT) END - 0) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT * FROM (SELECT "Uid" AS "__dpsql_unit", list_position([TRY_CAST('red' AS VARCHAR), TRY_CAST('green' AS VARCHAR), TRY_CAST('blue' AS VARCHAR)], "c") AS "__dpsql_k0", "amount" AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL) WHERE "__dpsql_k0" IS NOT NULL)) p JOIN "__dpsql_groups" g ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0" WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 10 OR ((("__dpsql_number" * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: 2e3fee4116510b83
-- spark: 38969801dd66a6be

-- title: Quantiles of weighted units
-- world: small
-- with: 'contribution_bounding': 'weight', 'max_groups_contributed': 4
SELECT k, MEDIAN(n), COUNT(*) FROM visits GROUP BY k;

-- __dpsql_released_0, as one: 87d8e86fcc3cae84
WITH "__dpsql_groups" AS MATERIALIZED (
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
        LEAST(COUNT(*), 10) AS "__dpsql_m0",
        LEAST(COUNT(*), 1) AS "__dpsql_m1"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "k" AS "__dpsql_k0"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
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
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, SUM("__dpsql_weight"))) AS BIGINT) AS "__dpsql_m1"
    FROM (
      SELECT
        "__dpsql_k0",
        "__dpsql_m0",
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
  )
)
SELECT
  *
FROM "__dpsql_groups"
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d0"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            "__dpsql_k0",
            (
              CASE
                WHEN "__dpsql_value" <= -5
                THEN -5
                WHEN "__dpsql_value" >= 20
                THEN 20
                ELSE TRY_CAST("__dpsql_value" AS BIGINT)
              END - (
                -5
              )
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              *,
              DENSE_RANK() OVER (
                PARTITION BY "__dpsql_unit"
                ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
              ) AS "__dpsql_rank"
            FROM (
              SELECT
                "Uid" AS "__dpsql_unit",
                "k" AS "__dpsql_k0",
                "n" AS "__dpsql_value"
              FROM "visits"
              WHERE
                NOT "Uid" IS NULL
            )
          )
          WHERE
            "__dpsql_rank" <= 4
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 10
      OR (
        (
          (
            "__dpsql_number" * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, stored groups: 5114edaf51365b77
SELECT
  "__dpsql_rid",
  "__dpsql_k0"
FROM "__dpsql_groups";

-- __dpsql_released_0, few chosen groups: 60ee4be1d0bb8bb5
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE list_contains(?::BIGINT[], "__dpsql_rid");

-- __dpsql_released_0, many chosen groups: eb65a92c2e8682a6
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, values 0: 2ca16fca1cbf3027
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", "__dpsql_k0", (CASE WHEN "__dpsql_value" <= -5 THEN -5 WHEN "__dpsql_value" >= 20 THEN 20 ELSE TRY_CAST("__dpsql_value" AS BIGINT) END - (-5)) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT *, dense_rank() OVER (PARTITION BY "__dpsql_unit" ORDER BY hash(hash(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0") AS "__dpsql_rank" FROM (SELECT "Uid" AS "__dpsql_unit", "k" AS "__dpsql_k0", "n" AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL)) WHERE "__dpsql_rank" <= 4) p JOIN "__dpsql_groups" g ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0" WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 10 OR ((("__dpsql_number" * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: d52493a3ae669188
-- spark: 1ac0bd0fa41b6f89

-- title: Quantiles between wide bounds
-- world: small
SELECT MEDIAN(big * 3000 - 2000) FROM visits;

-- __dpsql_released_0, as one: cde6006a3d089ece
WITH "__dpsql_groups" AS MATERIALIZED (
  SELECT
    1 AS "__dpsql_rid"
)
SELECT
  *
FROM "__dpsql_groups"
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d0"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            CASE
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 1024
              THEN (
                (
                  "__dpsql_step" // 1
                ) + 1512
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 2048
              THEN (
                (
                  "__dpsql_step" // 2
                ) + 2024
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 4096
              THEN (
                (
                  "__dpsql_step" // 4
                ) + 2536
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 8192
              THEN (
                (
                  "__dpsql_step" // 8
                ) + 3048
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 16384
              THEN (
                (
                  "__dpsql_step" // 16
                ) + 3560
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 32768
              THEN (
                (
                  "__dpsql_step" // 32
                ) + 4072
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 65536
              THEN (
                (
                  "__dpsql_step" // 64
                ) + 4584
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 131072
              THEN (
                (
                  "__dpsql_step" // 128
                ) + 5096
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 262144
              THEN (
                (
                  "__dpsql_step" // 256
                ) + 5608
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 524288
              THEN (
                (
                  "__dpsql_step" // 512
                ) + 6120
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 1048576
              THEN (
                (
                  "__dpsql_step" // 1024
                ) + 6632
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 2097152
              THEN (
                (
                  "__dpsql_step" // 2048
                ) + 7144
              )
              WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 4194304
              THEN (
                (
                  "__dpsql_step" // 4096
                ) + 7656
              )
              WHEN "__dpsql_step" < 0 AND "__dpsql_step" > (
                -1024
              )
              THEN (
                (
                  "__dpsql_step" // 1
                ) - (
                  -1512
                )
              )
              WHEN "__dpsql_step" < 0 AND "__dpsql_step" > (
                -2048
              )
              THEN (
                (
                  "__dpsql_step" // 2
                ) - (
                  -1000
                )
              )
            END AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              *,
              CASE
                WHEN "__dpsql_value" <= -2000
                THEN -2000
                WHEN "__dpsql_value" >= 2998000
                THEN 2998000
                ELSE TRY_CAST("__dpsql_value" AS BIGINT)
              END AS "__dpsql_step"
            FROM (
              SELECT
                "Uid" AS "__dpsql_unit",
                TRY("big" * 3000 - 2000) AS "__dpsql_value"
              FROM "visits"
              WHERE
                NOT "Uid" IS NULL
            )
          )
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON TRUE
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 10
      OR (
        (
          (
            "__dpsql_number" * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 10
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, stored groups: 835ee71f552a9066
SELECT
  "__dpsql_rid"
FROM "__dpsql_groups";

-- __dpsql_released_0, few chosen groups: a0447d4e909cf47b
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE list_contains(?::BIGINT[], "__dpsql_rid");

-- __dpsql_released_0, many chosen groups: 5d7187d6e0612aa7
SELECT "__dpsql_rid" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, values 0: 77d1ddb3e551941b
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", CASE WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 1024 THEN (("__dpsql_step" // 1) + 1512) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 2048 THEN (("__dpsql_step" // 2) + 2024) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 4096 THEN (("__dpsql_step" // 4) + 2536) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 8192 THEN (("__dpsql_step" // 8) + 3048) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 16384 THEN (("__dpsql_step" // 16) + 3560) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 32768 THEN (("__dpsql_step" // 32) + 4072) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 65536 THEN (("__dpsql_step" // 64) + 4584) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 131072 THEN (("__dpsql_step" // 128) + 5096) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 262144 THEN (("__dpsql_step" // 256) + 5608) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 524288 THEN (("__dpsql_step" // 512) + 6120) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 1048576 THEN (("__dpsql_step" // 1024) + 6632) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 2097152 THEN (("__dpsql_step" // 2048) + 7144) WHEN "__dpsql_step" >= 0 AND "__dpsql_step" < 4194304 THEN (("__dpsql_step" // 4096) + 7656) WHEN "__dpsql_step" < 0 AND "__dpsql_step" > (-1024) THEN (("__dpsql_step" // 1) - (-1512)) WHEN "__dpsql_step" < 0 AND "__dpsql_step" > (-2048) THEN (("__dpsql_step" // 2) - (-1000)) END AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT *, CASE WHEN "__dpsql_value" <= -2000 THEN -2000 WHEN "__dpsql_value" >= 2998000 THEN 2998000 ELSE TRY_CAST("__dpsql_value" AS BIGINT) END AS "__dpsql_step" FROM (SELECT "Uid" AS "__dpsql_unit", TRY("big" * 3000 - 2000) AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL))) p JOIN "__dpsql_groups" g ON TRUE WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 10 OR ((("__dpsql_number" * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: fd63ec58aa2e24ee
-- spark: bb981f361e69f930

-- title: Extremes and quantiles of dates and timestamps
-- world: small
-- with: 'max_groups_contributed': 3, 'max_rows_contributed': 4
SELECT k, MAX(d), MIN(ts, contribution_bounds_per_row => (DATE '2020-01-01', '2030-01-01 12:00:00')) FROM visits WHERE d >= DATE '2024-01-01' AND d < DATE '2025-01-01' GROUP BY k;

-- __dpsql_released_0, as one: 5cb420dfd06d254c
WITH "__dpsql_groups" AS MATERIALIZED (
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
          AND (
            TRY("d" >= TRY_CAST('2024-01-01' AS DATE))
            AND TRY("d" < TRY_CAST('2025-01-01' AS DATE))
          )
      )
    )
    WHERE
      "__dpsql_rank" <= 3 AND (
        "__dpsql_row" - "__dpsql_first"
      ) < 1
    GROUP BY
      "__dpsql_k0"
  )
)
SELECT
  *
FROM "__dpsql_groups"
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d0"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            "__dpsql_k0",
            (
              CASE
                WHEN "__dpsql_value" <= 19723
                THEN 19723
                WHEN "__dpsql_value" >= 20088
                THEN 20088
                ELSE TRY_CAST("__dpsql_value" AS BIGINT)
              END - 19723
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              *,
              DENSE_RANK() OVER (
                PARTITION BY "__dpsql_unit"
                ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
              ) AS "__dpsql_rank"
            FROM (
              SELECT
                "Uid" AS "__dpsql_unit",
                "k" AS "__dpsql_k0",
                TRY(DATE_DIFF('DAY', CAST('1970-01-01' AS DATE), "d")) AS "__dpsql_value"
              FROM "visits"
              WHERE
                NOT "Uid" IS NULL
                AND (
                  TRY("d" >= TRY_CAST('2024-01-01' AS DATE))
                  AND TRY("d" < TRY_CAST('2025-01-01' AS DATE))
                )
            )
          )
          WHERE
            "__dpsql_rank" <= 3
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 4
      OR (
        (
          (
            "__dpsql_number" * 4
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 4
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
LEFT JOIN (
  SELECT
    "__dpsql_rid",
    ARRAY_AGG(["__dpsql_point", "__dpsql_rows"]) AS "__dpsql_d1"
  FROM (
    SELECT
      "__dpsql_rid",
      "__dpsql_point",
      COUNT(*) AS "__dpsql_rows"
    FROM (
      SELECT
        "__dpsql_rid",
        "__dpsql_point",
        "__dpsql_start",
        ROW_NUMBER() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number",
        COUNT(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size"
      FROM (
        SELECT
          g."__dpsql_rid",
          "__dpsql_unit",
          "__dpsql_point",
          "__dpsql_start"
        FROM (
          SELECT
            "__dpsql_unit",
            "__dpsql_k0",
            (
              CASE
                WHEN ISNAN(TRY_CAST("__dpsql_value" AS DOUBLE))
                THEN NULL
                WHEN TRY_CAST("__dpsql_value" AS DOUBLE) <= 1577836800.0e0
                THEN 3081712
                WHEN TRY_CAST("__dpsql_value" AS DOUBLE) >= 1893499200.0e0
                THEN 3698241
                ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_value" AS DOUBLE) / 512.0e0) AS BIGINT)
              END - 3081712
            ) AS "__dpsql_point",
            CAST(HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              *,
              DENSE_RANK() OVER (
                PARTITION BY "__dpsql_unit"
                ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
              ) AS "__dpsql_rank"
            FROM (
              SELECT
                "Uid" AS "__dpsql_unit",
                "k" AS "__dpsql_k0",
                TRY(EPOCH("ts")) AS "__dpsql_value"
              FROM "visits"
              WHERE
                NOT "Uid" IS NULL
                AND (
                  TRY("d" >= TRY_CAST('2024-01-01' AS DATE))
                  AND TRY("d" < TRY_CAST('2025-01-01' AS DATE))
                )
            )
          )
          WHERE
            "__dpsql_rank" <= 3
        ) AS p
        JOIN "__dpsql_groups" AS g
          ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0"
        WHERE
          NOT "__dpsql_point" IS NULL
      )
    )
    WHERE
      "__dpsql_size" <= 4
      OR (
        (
          (
            "__dpsql_number" * 4
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      ) > (
        (
          (
            (
              "__dpsql_number" - 1
            ) * 4
          ) + (
            "__dpsql_start" % "__dpsql_size"
          )
        ) // "__dpsql_size"
      )
    GROUP BY
      "__dpsql_rid",
      "__dpsql_point"
    ORDER BY
      "__dpsql_rid",
      "__dpsql_point"
  )
  GROUP BY
    "__dpsql_rid"
)
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, stored groups: 5114edaf51365b77
SELECT
  "__dpsql_rid",
  "__dpsql_k0"
FROM "__dpsql_groups";

-- __dpsql_released_0, few chosen groups: 60ee4be1d0bb8bb5
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE list_contains(?::BIGINT[], "__dpsql_rid");

-- __dpsql_released_0, many chosen groups: eb65a92c2e8682a6
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_groups" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- __dpsql_released_0, values 0: 90ba984879c4129a
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", "__dpsql_k0", (CASE WHEN "__dpsql_value" <= 19723 THEN 19723 WHEN "__dpsql_value" >= 20088 THEN 20088 ELSE TRY_CAST("__dpsql_value" AS BIGINT) END - 19723) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT *, dense_rank() OVER (PARTITION BY "__dpsql_unit" ORDER BY hash(hash(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0") AS "__dpsql_rank" FROM (SELECT "Uid" AS "__dpsql_unit", "k" AS "__dpsql_k0", TRY(DATE_DIFF('DAY', CAST('1970-01-01' AS DATE), "d")) AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL AND (TRY("d" >= TRY_CAST('2024-01-01' AS DATE)) AND TRY("d" < TRY_CAST('2025-01-01' AS DATE))))) WHERE "__dpsql_rank" <= 3) p JOIN "__dpsql_groups" g ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0" WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 4 OR ((("__dpsql_number" * 4) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 4) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- __dpsql_released_0, values 1: 1242f96617ab81d3
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", "__dpsql_k0", (CASE WHEN isnan(TRY_CAST("__dpsql_value" AS DOUBLE)) THEN NULL WHEN TRY_CAST("__dpsql_value" AS DOUBLE) <= 1577836800.0e0 THEN 3081712 WHEN TRY_CAST("__dpsql_value" AS DOUBLE) >= 1893499200.0e0 THEN 3698241 ELSE TRY_CAST(round(TRY_CAST("__dpsql_value" AS DOUBLE) / 512.0e0) AS BIGINT) END - 3081712) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", "__dpsql_k0", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT *, dense_rank() OVER (PARTITION BY "__dpsql_unit" ORDER BY hash(hash(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0") AS "__dpsql_rank" FROM (SELECT "Uid" AS "__dpsql_unit", "k" AS "__dpsql_k0", TRY(EPOCH("ts")) AS "__dpsql_value" FROM "visits" WHERE "Uid" IS NOT NULL AND (TRY("d" >= TRY_CAST('2024-01-01' AS DATE)) AND TRY("d" < TRY_CAST('2025-01-01' AS DATE))))) WHERE "__dpsql_rank" <= 3) p JOIN "__dpsql_groups" g ON p."__dpsql_k0" IS NOT DISTINCT FROM g."__dpsql_k0" WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 4 OR ((("__dpsql_number" * 4) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 4) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: 58e80e0534fb007f
-- spark: 32b999b751cda336

