-- title: A condition that cannot fail
-- world: small
SELECT k, COUNT(*) FROM visits WHERE n > 3 AND s = 'it''s' OR flag GROUP BY k;

-- __dpsql_released_0, as one: 4a9f4b3d17dfc7ef
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
        NOT "Uid" IS NULL AND (
          "n" > 3 AND "s" = 'it''s' OR "flag"
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 7ba92131924b0607
-- spark: 3ad5adc822a8b5a2

-- title: A condition of parts that can fail
-- world: small
SELECT k, COUNT(*) FROM visits WHERE NOT (n > 3 AND CAST(s AS INTEGER) > 3) GROUP BY k;

-- __dpsql_released_0, as one: 5e0cf191a6e6b9d3
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
        AND (
          NOT (
            "n" > 3 AND TRY(TRY_CAST("s" AS INT) > 3)
          )
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 594a0271f13e0c03
-- spark: 02c8d31d956d6ec5

-- title: A condition that is no truth value by its form
-- world: small
SELECT k, COUNT(*) FROM visits WHERE coalesce(flag, s = 'x') AND n * n IS DISTINCT FROM big
GROUP BY k;

-- __dpsql_released_0, as one: 2cabdee57ef72d0e
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
        AND (
          TRY_CAST(TRY(COALESCE("flag", "s" = 'x')) AS BOOLEAN)
          AND NOT COALESCE(
            TRY((
              "n" * "n"
            ) = "big"),
            (
              (
                TRY("n" * "n")
              ) IS NULL AND "big" IS NULL
            )
          )
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 9e0b578cbddee0d3
-- spark: ac3a9af68aff5084

-- title: CASE, BETWEEN and IN of what can fail
-- world: small
SELECT CASE WHEN n * big > 5 THEN 'much' WHEN s IN ('a', 'b') THEN s ELSE 'little' END AS size,
  COUNT(*) FROM visits WHERE n + big BETWEEN 0 AND 100 AND big IN (n, 3) GROUP BY size;

-- __dpsql_released_0, as one: 90c4f216a9dd2561
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
        CASE
          WHEN TRY("n" * "big" > 5)
          THEN 'much'
          WHEN "s" IN ('a', 'b')
          THEN "s"
          ELSE 'little'
        END AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
        AND (
          (
            TRY((
              "n" + "big"
            ) >= 0) AND TRY((
              "n" + "big"
            ) <= 100)
          )
          AND "big" IN ("n", 3)
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 5a0419aa518bef26
-- spark: a878993b636c9d8b

-- title: Keys that are decimals, doubles and dates
-- world: small
SELECT amount, x, d, date_trunc('month', ts) AS month, COUNT(DISTINCT uid) FROM visits GROUP BY ALL;

-- __dpsql_released_0, as one: 400fdda88681fbc3
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_k2",
  "__dpsql_k3",
  "__dpsql_m0"
FROM (
  SELECT
    "__dpsql_k0",
    "__dpsql_k1",
    "__dpsql_k2",
    "__dpsql_k3",
    COUNT(*) AS "__dpsql_m0"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1", "__dpsql_k2", "__dpsql_k3")), "__dpsql_k0", "__dpsql_k1", "__dpsql_k2", "__dpsql_k3"
      ) AS "__dpsql_rank",
      ROW_NUMBER() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1", "__dpsql_k2", "__dpsql_k3")), "__dpsql_k0", "__dpsql_k1", "__dpsql_k2", "__dpsql_k3"
      ) AS "__dpsql_row",
      RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1", "__dpsql_k2", "__dpsql_k3")), "__dpsql_k0", "__dpsql_k1", "__dpsql_k2", "__dpsql_k3"
      ) AS "__dpsql_first"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit",
        "amount" AS "__dpsql_k0",
        "x" AS "__dpsql_k1",
        "d" AS "__dpsql_k2",
        TRY(DATE_TRUNC('MONTH', "ts")) AS "__dpsql_k3"
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
    "__dpsql_k0",
    "__dpsql_k1",
    "__dpsql_k2",
    "__dpsql_k3"
);

-- postgresql: 1c65aed207cf7aae
-- spark: c65cc71985964640

-- title: A key that is an interval, made distinct first
-- world: small
SELECT since, COUNT(*) FROM (SELECT DISTINCT uid, ts - TIMESTAMP '2024-01-01' AS since FROM visits)
GROUP BY since;

-- __dpsql_released_0, as one: f5837c0b526691a0
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
        "__dpsql_c1" AS "__dpsql_k0"
      FROM (
        SELECT
          "Uid" AS "Uid",
          NORMALIZED_INTERVAL("__dpsql_c1") AS "__dpsql_c1"
        FROM (
          SELECT DISTINCT
            "Uid",
            "__dpsql_c1"
          FROM (
            SELECT
              *,
              TRY("ts" - TRY_CAST('2024-01-01' AS TIMESTAMP)) AS "__dpsql_c1"
            FROM "visits"
          )
        )
      )
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
);

-- postgresql: refused
-- spark: refused

-- title: Names that need quotes
-- world: small
SELECT "order", COUNT(DISTINCT "Uid") FROM visits WHERE "order" < 5 GROUP BY "order";

-- __dpsql_released_0, as one: 3484800f954dde53
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
        "order" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL AND (
          "order" < 5
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: f9e4ac9f1f8d96e8
-- spark: 7cd94bae3fcd6759

-- title: A unit that is text
-- world: small
SELECT k, COUNT(DISTINCT email), SUM(n) FROM mails WHERE email <> 'nobody' GROUP BY k;

-- __dpsql_released_0, as one: 705c93b24599e0a1
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    COUNT(*) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      LEAST("__dpsql_of0", 1) AS "__dpsql_m0",
      CAST(GREATEST(0, LEAST(100, COALESCE("__dpsql_of1", 0))) AS BIGINT) AS "__dpsql_m1"
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
        COUNT(*) OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        SUM("__dpsql_m1") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          CASE
            WHEN "__dpsql_m1" <= 0
            THEN 0
            WHEN "__dpsql_m1" >= 10
            THEN 10
            ELSE TRY_CAST("__dpsql_m1" AS BIGINT)
          END AS "__dpsql_m1"
        FROM (
          SELECT
            "email" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "n" AS "__dpsql_m1"
          FROM "mails"
          WHERE
            NOT "email" IS NULL AND (
              "email" <> 'nobody'
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

-- postgresql: 1810b7f00651e611
-- spark: 4960f8e9d42598b7

-- title: Functions with constants, in other words
-- world: small
SELECT to_char(ts, 'YYYY-MM') AS month, COUNT(*) FROM visits
WHERE s ~ '^[a-z]\d' AND k = ANY (ARRAY[1, 2]) AND replace(c, '-', '') <> s[2:3]
GROUP BY month;

-- __dpsql_released_0, as one: 1e156dddda45a0b3
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
        TRY(STRFTIME("ts", '%Y-%m')) AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
        AND (
          TRY_CAST(TRY(REGEXP_MATCHES("s", '^[a-z][0-9]')) AS BOOLEAN)
          AND "k" IN (1, 2)
          AND TRY(REPLACE("c", '-', '') <> SUBSTRING("s", 2, 2))
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 8ff620f0d810a886
-- spark: 92ead2eaea94b03a

