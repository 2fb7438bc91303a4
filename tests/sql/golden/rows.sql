-- title: Two private tables joined on their unit
-- world: lineage
SELECT v.k, COUNT(DISTINCT v.uid) FROM visits v JOIN people p ON v.uid = p.uid WHERE p.age > 30
GROUP BY v.k;

-- __dpsql_released_0, as one: cbfc1e55e5129fc5
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
        "__dpsql_c1" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0"
      FROM (
        SELECT
          "uid" AS "__dpsql_c1",
          "k" AS "__dpsql_c2"
        FROM "visits"
      )
      JOIN (
        SELECT
          "uid" AS "__dpsql_c6",
          "age" AS "__dpsql_c7"
        FROM "people"
      )
        ON (
          (
            "__dpsql_c1" = "__dpsql_c6"
          )
        )
      WHERE
        NOT "__dpsql_c1" IS NULL AND (
          "__dpsql_c7" > 30
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

-- postgresql: 2fd429e5a5b1b479
-- spark: 484a08c2fb706c20

-- title: A join along a link
-- world: lineage
SELECT i.k, SUM(i.qty) FROM items i JOIN orders o ON i.okey = o.okey GROUP BY i.k;

-- __dpsql_released_0, as one: b82e2e3edc10b2b4
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
      CAST(GREATEST(0, LEAST(500, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
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
            WHEN "__dpsql_m0" >= 50
            THEN 50
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "__dpsql_c7" AS "__dpsql_unit",
            "__dpsql_c3" AS "__dpsql_k0",
            "__dpsql_c4" AS "__dpsql_m0"
          FROM (
            SELECT
              "okey" AS "__dpsql_c1",
              "ikey" AS "__dpsql_c2",
              "k" AS "__dpsql_c3",
              "qty" AS "__dpsql_c4"
            FROM "items"
          )
          JOIN (
            SELECT
              "okey" AS "__dpsql_c5",
              "k" AS "__dpsql_c6",
              "uid" AS "__dpsql_c7"
            FROM "orders"
          )
            ON (
              (
                "__dpsql_c1" = "__dpsql_c5"
              )
            )
          WHERE
            NOT "__dpsql_c7" IS NULL
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

-- postgresql: cfd41a80c38e21bc
-- spark: b7f59acd94b28133

-- title: A table that reaches its unit through two links
-- world: lineage
SELECT why, COUNT(*) FROM returns GROUP BY why;

-- __dpsql_released_0, as one: feca50f5e678601c
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
        "__dpsql_c6" AS "__dpsql_unit",
        "why" AS "__dpsql_k0"
      FROM "returns"
      JOIN (
        (
          SELECT
            "ikey" AS "__dpsql_c1",
            "okey" AS "__dpsql_c2"
          FROM "items"
        )
        JOIN (
          SELECT
            "okey" AS "__dpsql_c5",
            "uid" AS "__dpsql_c6"
          FROM "orders"
        )
          ON (
            "__dpsql_c2" = "__dpsql_c5"
          )
      )
        ON (
          "ikey" = "__dpsql_c1"
        )
      WHERE
        NOT "__dpsql_c6" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: b87be9152caafbb9
-- spark: b5407496d3a9be84

-- title: A join with a public table
-- world: lineage
SELECT s.name, COUNT(DISTINCT v.uid) FROM visits v JOIN shops s ON v.k = s.k GROUP BY s.name;

-- __dpsql_released_0, as one: 81849f02fbaaaca7
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
        "__dpsql_c1" AS "__dpsql_unit",
        "__dpsql_c7" AS "__dpsql_k0"
      FROM (
        SELECT
          "__dpsql_c1",
          "__dpsql_c2",
          CASE WHEN STRLEN("__dpsql_c3") <= 16384 THEN "__dpsql_c3" END AS "__dpsql_c3"
        FROM (
          SELECT
            "uid" AS "__dpsql_c1",
            "k" AS "__dpsql_c2",
            "s" AS "__dpsql_c3"
          FROM "visits"
        )
      )
      JOIN (
        SELECT
          "__dpsql_c6",
          CASE WHEN STRLEN("__dpsql_c7") <= 16384 THEN "__dpsql_c7" END AS "__dpsql_c7",
          "__dpsql_c8"
        FROM (
          SELECT
            "k" AS "__dpsql_c6",
            "name" AS "__dpsql_c7",
            "uid" AS "__dpsql_c8"
          FROM "shops"
        )
      )
        ON (
          (
            "__dpsql_c2" = "__dpsql_c6"
          )
        )
      WHERE
        NOT "__dpsql_c1" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 529bac701b379383
-- spark: c1b546517bb6b7f4

-- title: A LEFT JOIN that keeps the private side
-- world: lineage
SELECT t.region, COUNT(*) FROM people p LEFT JOIN towns t USING (city) GROUP BY t.region;

-- __dpsql_released_0, as one: b2250b18c9312ee7
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
        "__dpsql_c1" AS "__dpsql_unit",
        "__dpsql_c5" AS "__dpsql_k0"
      FROM (
        SELECT
          "uid" AS "__dpsql_c1",
          "city" AS "__dpsql_c2"
        FROM "people"
      )
      LEFT JOIN (
        SELECT
          "__dpsql_c4",
          CASE WHEN STRLEN("__dpsql_c5") <= 16384 THEN "__dpsql_c5" END AS "__dpsql_c5"
        FROM (
          SELECT
            "city" AS "__dpsql_c4",
            "region" AS "__dpsql_c5"
          FROM "towns"
        )
      )
        ON (
          (
            "__dpsql_c2" = "__dpsql_c4"
          )
        )
      WHERE
        NOT "__dpsql_c1" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: e50842c3089c7560
-- spark: 7829920ab13a91ff

-- title: A FULL JOIN with a further condition
-- world: lineage
SELECT o.k, COUNT(*) FROM visits v FULL JOIN orders o ON v.uid = o.uid AND v.n > o.k GROUP BY o.k;

-- __dpsql_released_0, as one: 6900a2e2e1b78b66
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
        "__dpsql_c10" AS "__dpsql_unit",
        "__dpsql_c8" AS "__dpsql_k0"
      FROM (
        SELECT
          *,
          COALESCE("__dpsql_c1", "__dpsql_c6") AS "__dpsql_c10"
        FROM (
          SELECT
            "__dpsql_c1" AS "__dpsql_c1",
            "__dpsql_c2" AS "__dpsql_c2",
            "__dpsql_c3" AS "__dpsql_c3",
            "__dpsql_c6" AS "__dpsql_c6",
            "__dpsql_c7" AS "__dpsql_c7",
            "__dpsql_c8" AS "__dpsql_c8"
          FROM (
            SELECT
              "uid" AS "__dpsql_c1",
              "k" AS "__dpsql_c2",
              "n" AS "__dpsql_c3"
            FROM "visits"
          )
          LEFT JOIN (
            SELECT
              "uid" AS "__dpsql_c6",
              "okey" AS "__dpsql_c7",
              "k" AS "__dpsql_c8"
            FROM "orders"
          )
            ON (
              (
                "__dpsql_c1" = "__dpsql_c6"
              ) AND (
                "__dpsql_c3" > "__dpsql_c8"
              )
            )
          UNION ALL
          SELECT
            "__dpsql_c1" AS "__dpsql_c1",
            "__dpsql_c2" AS "__dpsql_c2",
            "__dpsql_c3" AS "__dpsql_c3",
            "__dpsql_c6" AS "__dpsql_c6",
            "__dpsql_c7" AS "__dpsql_c7",
            "__dpsql_c8" AS "__dpsql_c8"
          FROM (
            SELECT
              *
            FROM (
              SELECT
                "uid" AS "__dpsql_c1",
                "k" AS "__dpsql_c2",
                "n" AS "__dpsql_c3"
              FROM "visits"
            )
            RIGHT JOIN (
              SELECT
                "uid" AS "__dpsql_c6",
                "okey" AS "__dpsql_c7",
                "k" AS "__dpsql_c8"
              FROM "orders"
            )
              ON (
                (
                  "__dpsql_c1" = "__dpsql_c6"
                ) AND (
                  "__dpsql_c3" > "__dpsql_c8"
                )
              )
            WHERE
              "__dpsql_c1" IS NULL
          )
        )
      )
      WHERE
        NOT "__dpsql_c10" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: not bound
-- spark: not bound

-- title: A value of a unit's rows beside each of its rows
-- world: lineage
SELECT v.k, COUNT(*) FROM visits v WHERE (SELECT COUNT(*) FROM orders o WHERE o.uid = v.uid) > 1
GROUP BY v.k;

-- __dpsql_released_0, as one: a4ed1073284cc782
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM (
        SELECT
          *,
          COALESCE("__dpsql_c6", 0) AS "__dpsql_c7"
        FROM (
          SELECT
            "uid",
            "k",
            CASE WHEN STRLEN("s") <= 16384 THEN "s" END AS "s",
            "n",
            "x"
          FROM "visits"
        )
        LEFT JOIN (
          SELECT
            "__dpsql_c1" AS "__dpsql_c5",
            COUNT(*) AS "__dpsql_c6"
          FROM (
            SELECT
              "uid" AS "__dpsql_c1",
              "okey" AS "__dpsql_c2",
              "k" AS "__dpsql_c3"
            FROM "orders"
          )
          GROUP BY
            1
        )
          ON (
            (
              "uid" = "__dpsql_c5"
            )
          )
      )
      WHERE
        NOT "uid" IS NULL AND (
          "__dpsql_c7" > 1
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

-- postgresql: not bound
-- spark: not bound

-- title: A semi-join by IN
-- world: lineage
SELECT k, COUNT(*) FROM visits WHERE k IN (SELECT k FROM shops WHERE size > 10) GROUP BY k;

-- __dpsql_released_0, as one: 43f8380469dd4b99
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM (
        SELECT
          "uid",
          "k",
          CASE WHEN STRLEN("s") <= 16384 THEN "s" END AS "s",
          "n",
          "x"
        FROM "visits"
      )
      SEMI JOIN (
        SELECT
          "k" AS "__dpsql_c1",
          "size" AS "__dpsql_c2"
        FROM "shops"
      )
        ON (
          (
            "__dpsql_c2" > 10
          ) AND (
            (
              "k"
            ) = (
              "__dpsql_c1"
            )
          )
        )
      WHERE
        NOT "uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: fa15f850a7f95563
-- spark: f79529cc12c86965

-- title: An anti-join by NOT EXISTS
-- world: lineage
SELECT v.k, COUNT(*) FROM visits v WHERE NOT EXISTS (SELECT 1 FROM shops s WHERE s.k = v.k)
GROUP BY v.k;

-- __dpsql_released_0, as one: 2b67ca69ac6df6ef
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      ANTI JOIN (
        SELECT
          "k" AS "__dpsql_c1"
        FROM "shops"
      )
        ON (
          (
            "__dpsql_c1" = "k"
          )
        )
      WHERE
        NOT "uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: c40c106f7cd4343b
-- spark: f0a99eb0367ce89e

-- title: An anti-join by NOT IN
-- world: lineage
SELECT k, COUNT(*) FROM visits WHERE k NOT IN (SELECT k FROM shops) GROUP BY k;

-- __dpsql_released_0, as one: 67e42b2175cdf720
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM (
        SELECT
          "uid",
          "k",
          CASE WHEN STRLEN("s") <= 16384 THEN "s" END AS "s",
          "n",
          "x"
        FROM "visits"
      )
      ANTI JOIN (
        SELECT
          "k" AS "__dpsql_c1"
        FROM "shops"
      )
        ON (
          (
            (
              "k"
            ) = (
              "__dpsql_c1"
            )
            OR (
              (
                "k"
              )
            ) IS NULL
            OR (
              (
                "__dpsql_c1"
              )
            ) IS NULL
          )
        )
      WHERE
        NOT "uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 48cca80a715b20ad
-- spark: 6847369e5deb80c0

-- title: Spelled out, SEMI JOIN and ANTI JOIN
-- world: lineage
SELECT v.k, COUNT(*) FROM visits v SEMI JOIN shops s ON v.k = s.k ANTI JOIN towns t ON v.s = t.city
GROUP BY v.k;

-- __dpsql_released_0, as one: 7c70cfc4f4eeab0c
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
        "__dpsql_c3" AS "__dpsql_unit",
        "__dpsql_c1" AS "__dpsql_k0"
      FROM (
        SELECT
          "k" AS "__dpsql_c1",
          "s" AS "__dpsql_c2",
          "uid" AS "__dpsql_c3"
        FROM "visits"
      )
      SEMI JOIN (
        SELECT
          "k" AS "__dpsql_c6"
        FROM "shops"
      )
        ON (
          (
            "__dpsql_c1" = "__dpsql_c6"
          )
        )
      ANTI JOIN (
        SELECT
          "city" AS "__dpsql_c10"
        FROM "towns"
      )
        ON (
          (
            "__dpsql_c2" = "__dpsql_c10"
          )
        )
      WHERE
        NOT "__dpsql_c3" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 84ac1398cc581c4a
-- spark: 41b12409e18cfabf

-- title: Pre-aggregation for each unit
-- world: lineage
SELECT total, COUNT(*) FROM (
  SELECT uid, SUM(n) AS total, AVG(x) AS mean, MAX(k) AS last, COUNT(DISTINCT s) AS kinds
  FROM visits GROUP BY uid HAVING COUNT(*) > 2
) GROUP BY total;

-- __dpsql_released_0, as one: 7f16510f4da1be74
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
        "__dpsql_c1" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0"
      FROM (
        SELECT
          *
        FROM (
          SELECT
            "__dpsql_c1" AS "__dpsql_c1",
            "__dpsql_c2" AS "__dpsql_c2",
            CASE WHEN ISNAN("__dpsql_c3") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c3" + 0 END AS "__dpsql_c3",
            "__dpsql_c4" AS "__dpsql_c4",
            "__dpsql_c5" AS "__dpsql_c5",
            "__dpsql_c6" AS "__dpsql_c6"
          FROM (
            SELECT
              "uid" AS "__dpsql_c1",
              TRY_CAST(SUM(TRY_CAST("n" AS BIGINT)) AS BIGINT) AS "__dpsql_c2",
              CAST(SUM(TRY_CAST("x" AS DECIMAL(25, 8))) AS DOUBLE) / COUNT(TRY_CAST("x" AS DECIMAL(25, 8))) AS "__dpsql_c3",
              MAX("k") AS "__dpsql_c4",
              COUNT(DISTINCT "s") AS "__dpsql_c5",
              COUNT(*) AS "__dpsql_c6"
            FROM "visits"
            GROUP BY
              1
          )
        )
        WHERE
          "__dpsql_c6" > 2
      )
      WHERE
        NOT "__dpsql_c1" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 1 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: not bound
-- spark: not bound

-- title: Two CTEs, one over the other
-- world: lineage
WITH few AS (SELECT uid, k, n + 1 AS m FROM visits WHERE n < 10),
     fewer AS (SELECT * FROM few WHERE k > 1)
SELECT k, SUM(m) FROM fewer GROUP BY k;

-- __dpsql_released_0, as one: 891bf53dacd6fa9c
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
      CAST(GREATEST(-40, LEAST(210, COALESCE("__dpsql_of0", 0))) AS BIGINT) AS "__dpsql_m0",
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
            WHEN "__dpsql_m0" <= -4
            THEN -4
            WHEN "__dpsql_m0" >= 21
            THEN 21
            ELSE TRY_CAST("__dpsql_m0" AS BIGINT)
          END AS "__dpsql_m0"
        FROM (
          SELECT
            "uid" AS "__dpsql_unit",
            "k" AS "__dpsql_k0",
            "__dpsql_c1" AS "__dpsql_m0"
          FROM (
            SELECT
              *
            FROM (
              SELECT
                *,
                TRY("n" + 1) AS "__dpsql_c1"
              FROM (
                SELECT
                  *
                FROM "visits"
                WHERE
                  "n" < 10
              )
            )
            WHERE
              "k" > 1
          )
          WHERE
            NOT "uid" IS NULL
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

-- postgresql: not bound
-- spark: not bound

-- title: UNION ALL of two private tables
-- world: lineage
SELECT k, COUNT(DISTINCT uid) FROM (
  SELECT uid, k FROM visits UNION ALL SELECT uid, k FROM logins
) GROUP BY k;

-- __dpsql_released_0, as one: 313d6df6238e63fc
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
        "__dpsql_c3" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0"
      FROM (
        SELECT
          "uid" AS "__dpsql_c1",
          "k" AS "__dpsql_c2",
          "uid" AS "__dpsql_c3"
        FROM "visits"
        UNION ALL
        SELECT
          "uid" AS "__dpsql_c1",
          "k" AS "__dpsql_c2",
          "uid" AS "__dpsql_c3"
        FROM "logins"
      )
      WHERE
        NOT "__dpsql_c3" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: f277cedb0b1489d7
-- spark: 91d810d5b1c3af62

-- title: UNION of distinct rows, doubles in one spelling
-- world: lineage
SELECT x, COUNT(*) FROM (
  SELECT uid, x FROM visits UNION SELECT uid, price FROM orders
) GROUP BY x;

-- __dpsql_released_0, as one: 6e57e36db3d858e2
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
        "__dpsql_c3" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0"
      FROM (
        SELECT
          "__dpsql_c1" AS "__dpsql_c1",
          CASE WHEN ISNAN("__dpsql_c2") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c2" + 0 END AS "__dpsql_c2",
          "__dpsql_c3"
        FROM (
          SELECT
            "uid" AS "__dpsql_c1",
            "x" AS "__dpsql_c2",
            "uid" AS "__dpsql_c3"
          FROM "visits"
          UNION
          SELECT
            "uid" AS "__dpsql_c1",
            "price" AS "__dpsql_c2",
            "uid" AS "__dpsql_c3"
          FROM "orders"
        )
      )
      WHERE
        NOT "__dpsql_c3" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: not bound
-- spark: not bound

-- title: Two blocks of one statement
-- world: lineage
SELECT a.k, a.n, b.n FROM (SELECT k, COUNT(*) AS n FROM visits GROUP BY k) a
JOIN (SELECT k, COUNT(*) AS n FROM orders GROUP BY k) b ON a.k = b.k;

-- __dpsql_released_0, as one: a74b20f3b541effe
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "visits"
      WHERE
        NOT "uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- __dpsql_released_1, as one: 760072e73d26466d
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "orders"
      WHERE
        NOT "uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 1a6261fd622b3315
-- spark: df8fa0b62006c7a4

-- title: ROLLUP of two keys
-- world: small
SELECT k, s, COUNT(*) FROM visits GROUP BY ROLLUP (k, s);

-- __dpsql_released_0, as one: ebc08eb01dbc37d6
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    "__dpsql_k1",
    COUNT(*) AS "__dpsql_m0",
    COUNT(CASE WHEN "__dpsql_row" = "__dpsql_first" THEN 1 END) AS "__dpsql_m1"
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
        "k" AS "__dpsql_k0",
        "s" AS "__dpsql_k1"
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
    "__dpsql_k0",
    "__dpsql_k1"
);

-- __dpsql_released_1, as one: b359219b6c6bca07
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
);

-- __dpsql_released_2, as one: 839b085854a83f63
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_m0"
FROM (
  SELECT
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0"
  FROM (
    SELECT
      "__dpsql_unit",
      LEAST(COUNT(*), 10) AS "__dpsql_m0"
    FROM (
      SELECT
        "Uid" AS "__dpsql_unit"
      FROM "visits"
      WHERE
        NOT "Uid" IS NULL
    )
    GROUP BY
      "__dpsql_unit"
  )
);

-- postgresql: b5ff687b63d257c4
-- spark: 99d463fa07e8b5f6

-- title: The latest row of each unit
-- world: lineage
SELECT k, COUNT(*) FROM (SELECT uid, k FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY n DESC) = 1)
GROUP BY k;

-- __dpsql_released_0, as one: 976c908e6c072181
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
        "__dpsql_c1" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0"
      FROM (
        SELECT
          *
        FROM (
          SELECT
            *,
            ROW_NUMBER() OVER (PARTITION BY "__dpsql_c1" ORDER BY "__dpsql_c3" DESC, "__dpsql_c2") AS "__dpsql_c6"
          FROM (
            SELECT
              "uid" AS "__dpsql_c1",
              "k" AS "__dpsql_c2",
              "n" AS "__dpsql_c3"
            FROM "visits"
          )
        )
        WHERE
          "__dpsql_c6" = 1
      )
      WHERE
        NOT "__dpsql_c1" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 1 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 1
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 8082e125861bbc00
-- spark: 6a06bf7604153608

-- title: Rows beside those before and after
-- world: lineage
SELECT r, COUNT(*), COUNT(a), COUNT(b) FROM (SELECT uid, RANK() OVER (PARTITION BY uid ORDER BY n DESC NULLS FIRST) AS r,
LAG(s) OVER (PARTITION BY uid ORDER BY n) AS a, LEAD(n, 2) OVER (PARTITION BY uid, k ORDER BY n) AS b,
FIRST_VALUE(k) OVER (PARTITION BY uid ORDER BY s, n) AS f, MAX(n) OVER (PARTITION BY uid) AS m FROM visits)
WHERE f < 4 AND m > 1 GROUP BY r;

-- __dpsql_released_0, as one: 608b052e79f2135d
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_m0",
  "__dpsql_m1",
  "__dpsql_m2",
  "__dpsql_m3"
FROM (
  SELECT
    "__dpsql_k0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m2"), 0))) AS BIGINT) AS "__dpsql_m2",
    COUNT(*) AS "__dpsql_m3"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      LEAST("__dpsql_of0", 10) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 10) AS "__dpsql_m1",
      LEAST("__dpsql_of2", 10) AS "__dpsql_m2",
      LEAST("__dpsql_of0", 1) AS "__dpsql_m3"
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
        COUNT("__dpsql_m1") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        COUNT("__dpsql_m2") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          "__dpsql_m1" AS "__dpsql_m1",
          "__dpsql_m2" AS "__dpsql_m2"
        FROM (
          SELECT
            "__dpsql_c1" AS "__dpsql_unit",
            "__dpsql_c6" AS "__dpsql_k0",
            "__dpsql_c7" AS "__dpsql_m1",
            "__dpsql_c8" AS "__dpsql_m2"
          FROM (
            SELECT
              *,
              RANK() OVER (PARTITION BY "__dpsql_c1" ORDER BY "__dpsql_c4" DESC NULLS FIRST) AS "__dpsql_c6",
              LAG("__dpsql_c3", 1) OVER (PARTITION BY "__dpsql_c1" ORDER BY "__dpsql_c4", "__dpsql_c2", "__dpsql_c3") AS "__dpsql_c7",
              LEAD("__dpsql_c4", 2) OVER (PARTITION BY "__dpsql_c1", "__dpsql_c2" ORDER BY "__dpsql_c4", "__dpsql_c3") AS "__dpsql_c8",
              FIRST_VALUE("__dpsql_c2") OVER (PARTITION BY "__dpsql_c1" ORDER BY "__dpsql_c3", "__dpsql_c4", "__dpsql_c2") AS "__dpsql_c9",
              MAX("__dpsql_c4") OVER (PARTITION BY "__dpsql_c1") AS "__dpsql_c10"
            FROM (
              SELECT
                "uid" AS "__dpsql_c1",
                "k" AS "__dpsql_c2",
                "s" AS "__dpsql_c3",
                "n" AS "__dpsql_c4"
              FROM "visits"
            )
          )
          WHERE
            NOT "__dpsql_c1" IS NULL AND (
              "__dpsql_c9" < 4 AND "__dpsql_c10" > 1
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

-- postgresql: fbcd2f7435c320b6
-- spark: cba058b42eaade97

-- title: One row of each unit and key
-- world: lineage
SELECT s, COUNT(*) FROM (SELECT DISTINCT ON (o.uid, i.k) o.uid, i.k, CAST(i.qty AS VARCHAR) AS s FROM items i
JOIN orders o ON i.okey = o.okey ORDER BY i.ikey % 5 DESC) GROUP BY s;

-- __dpsql_released_0, as one: ca59cba5d2556a21
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
        "__dpsql_c13" AS "__dpsql_unit",
        "__dpsql_c20" AS "__dpsql_k0"
      FROM (
        SELECT
          *,
          TRY(CAST("__dpsql_c12" AS TEXT)) AS "__dpsql_c20"
        FROM (
          SELECT
            *
          FROM (
            SELECT
              *,
              ROW_NUMBER() OVER (
                PARTITION BY "__dpsql_c13", "__dpsql_c11"
                ORDER BY "__dpsql_c17" DESC, "__dpsql_c9", "__dpsql_c10", "__dpsql_c12", "__dpsql_c14", "__dpsql_c15"
              ) AS "__dpsql_c18"
            FROM (
              SELECT
                *,
                TRY("__dpsql_c10" % 5) AS "__dpsql_c17"
              FROM (
                SELECT
                  "__dpsql_c1" AS "__dpsql_c9",
                  "__dpsql_c2" AS "__dpsql_c10",
                  "__dpsql_c3" AS "__dpsql_c11",
                  "__dpsql_c4" AS "__dpsql_c12",
                  "__dpsql_c5" AS "__dpsql_c13",
                  "__dpsql_c6" AS "__dpsql_c14",
                  "__dpsql_c7" AS "__dpsql_c15"
                FROM (
                  SELECT
                    "okey" AS "__dpsql_c1",
                    "ikey" AS "__dpsql_c2",
                    "k" AS "__dpsql_c3",
                    "qty" AS "__dpsql_c4"
                  FROM "items"
                )
                JOIN (
                  SELECT
                    "uid" AS "__dpsql_c5",
                    "okey" AS "__dpsql_c6",
                    "k" AS "__dpsql_c7"
                  FROM "orders"
                )
                  ON (
                    (
                      "__dpsql_c1" = "__dpsql_c6"
                    )
                  )
              )
            )
          )
          WHERE
            "__dpsql_c18" = 1
        )
      )
      WHERE
        NOT "__dpsql_c13" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: not bound
-- spark: not bound

-- title: A join along a link on several columns
-- world: lineage
SELECT p.k, COUNT(*) FROM parts p JOIN boxes x ON p.a = x.a AND p.b = x.b GROUP BY p.k;

-- __dpsql_released_0, as one: 115cb5ea0ec5d9b9
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
        "__dpsql_c7" AS "__dpsql_unit",
        "__dpsql_c3" AS "__dpsql_k0"
      FROM (
        SELECT
          "a" AS "__dpsql_c1",
          "b" AS "__dpsql_c2",
          "k" AS "__dpsql_c3"
        FROM "parts"
      )
      JOIN (
        SELECT
          "a" AS "__dpsql_c4",
          "b" AS "__dpsql_c5",
          "k" AS "__dpsql_c6",
          "uid" AS "__dpsql_c7"
        FROM "boxes"
      )
        ON (
          (
            "__dpsql_c1" = "__dpsql_c4"
          ) AND (
            "__dpsql_c2" = "__dpsql_c5"
          )
        )
      WHERE
        NOT "__dpsql_c7" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: 3203c120af6bb80f
-- spark: b7e4c1a632879864

-- title: A table that a link on several columns leads away from
-- world: lineage
SELECT k, COUNT(*) FROM parts GROUP BY k;

-- __dpsql_released_0, as one: 93c9cdb3cc852c4b
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
        "__dpsql_c4" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM "parts"
      JOIN (
        SELECT
          "a" AS "__dpsql_c1",
          "b" AS "__dpsql_c2",
          "k" AS "__dpsql_c3",
          "uid" AS "__dpsql_c4"
        FROM "boxes"
      )
        ON (
          (
            "a" = "__dpsql_c1"
          ) AND (
            "b" = "__dpsql_c2"
          )
        )
      WHERE
        NOT "__dpsql_c4" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: c605fff958744fa9
-- spark: 7dced6d7888eec72

-- title: An outer join along a link between units
-- world: lineage
SELECT x.k, COUNT(r.k) FROM boxes x LEFT JOIN refunds r ON x.a = r.a AND x.b = r.b GROUP BY x.k;

-- __dpsql_released_0, as one: 50d6246e5fcb2035
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
      LEAST("__dpsql_of0", 10) AS "__dpsql_m0",
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
        COUNT("__dpsql_m0") OVER (
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
          "__dpsql_m0" AS "__dpsql_m0"
        FROM (
          SELECT
            "__dpsql_c4" AS "__dpsql_unit",
            "__dpsql_c3" AS "__dpsql_k0",
            "__dpsql_c7" AS "__dpsql_m0"
          FROM (
            SELECT
              "a" AS "__dpsql_c1",
              "b" AS "__dpsql_c2",
              "k" AS "__dpsql_c3",
              "uid" AS "__dpsql_c4"
            FROM "boxes"
          )
          LEFT JOIN (
            SELECT
              "a" AS "__dpsql_c5",
              "b" AS "__dpsql_c6",
              "k" AS "__dpsql_c7",
              "uid" AS "__dpsql_c8"
            FROM "refunds"
          )
            ON (
              (
                "__dpsql_c1" = "__dpsql_c5"
              )
              AND (
                "__dpsql_c2" = "__dpsql_c6"
              )
              AND (
                "__dpsql_c4" = "__dpsql_c8"
              )
            )
          WHERE
            NOT "__dpsql_c4" IS NULL
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

-- postgresql: ae2da75d8c611141
-- spark: 7d83bbcce2cb395c

-- title: NOT IN and EXISTS along links between units
-- world: lineage
SELECT k, COUNT(*) FROM stamps s WHERE no NOT IN (SELECT no FROM stamps WHERE k > 3) AND EXISTS (SELECT 1 FROM stamps t WHERE t.no = s.no AND t.k <> s.k) GROUP BY k;

-- __dpsql_released_0, as one: 8aa5a00ed91dc941
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
        "uid" AS "__dpsql_unit",
        "k" AS "__dpsql_k0"
      FROM (
        SELECT
          *
        FROM "stamps"
        ANTI JOIN (
          SELECT
            "no" AS "__dpsql_c1",
            "k" AS "__dpsql_c2",
            "uid" AS "__dpsql_c3"
          FROM "stamps"
        )
          ON (
            (
              "__dpsql_c2" > 3
            )
            AND (
              "uid" = "__dpsql_c3"
            )
            AND (
              (
                "no"
              ) = (
                "__dpsql_c1"
              )
              OR (
                (
                  "no"
                )
              ) IS NULL
              OR (
                (
                  "__dpsql_c1"
                )
              ) IS NULL
            )
          )
        WHERE
          NOT (
            (
              "no"
            )
          ) IS NULL
      )
      SEMI JOIN (
        SELECT
          "no" AS "__dpsql_c4",
          "k" AS "__dpsql_c5",
          "uid" AS "__dpsql_c6"
        FROM "stamps"
      )
        ON (
          (
            "__dpsql_c4" = "no"
          )
          AND (
            "__dpsql_c5" <> "k"
          )
          AND (
            "uid" = "__dpsql_c6"
          )
        )
      WHERE
        NOT "uid" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: f572d42abebc40c1
-- spark: 2884af69213c1284

-- title: Values at the ends and deviations of a unit's rows
-- world: lineage
SELECT a, COUNT(*), COUNT(d), COUNT(b), COUNT(c) FROM (SELECT uid, k % 2 AS odd, ARG_MAX(s, n) AS a, ARG_MIN(x, k) AS b,
STDDEV(x) AS d, ANY_VALUE(n) AS c FROM visits GROUP BY uid, odd HAVING VAR_POP(n) < 1e6) GROUP BY a;

-- __dpsql_released_0, as one: b777479faa35adda
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
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m2"), 0))) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3",
    COUNT(*) AS "__dpsql_m4"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      LEAST("__dpsql_of0", 10) AS "__dpsql_m0",
      LEAST("__dpsql_of1", 10) AS "__dpsql_m1",
      LEAST("__dpsql_of2", 10) AS "__dpsql_m2",
      LEAST("__dpsql_of3", 10) AS "__dpsql_m3",
      LEAST("__dpsql_of0", 1) AS "__dpsql_m4"
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
        COUNT("__dpsql_m1") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        COUNT("__dpsql_m2") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2",
        COUNT("__dpsql_m3") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of3"
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_k0",
          "__dpsql_m1" AS "__dpsql_m1",
          "__dpsql_m2" AS "__dpsql_m2",
          "__dpsql_m3" AS "__dpsql_m3"
        FROM (
          SELECT
            "__dpsql_c1" AS "__dpsql_unit",
            "__dpsql_c3" AS "__dpsql_k0",
            "__dpsql_c38" AS "__dpsql_m1",
            "__dpsql_c7" AS "__dpsql_m2",
            "__dpsql_c21" AS "__dpsql_m3"
          FROM (
            SELECT
              *,
              (
                TRY(
                  SQRT(
                    TRY(
                      CASE
                        WHEN TRY(
                          (
                            "__dpsql_c11" - "__dpsql_c12" * "__dpsql_c12" / NULLIF("__dpsql_c14", 0)
                          ) / NULLIF((
                            "__dpsql_c14" - 1
                          ), 0) < TRY_CAST(0 AS DOUBLE)
                        )
                        THEN TRY(TRY_CAST(0 AS DOUBLE))
                        ELSE TRY(
                          (
                            "__dpsql_c11" - "__dpsql_c12" * "__dpsql_c12" / NULLIF("__dpsql_c14", 0)
                          ) / NULLIF((
                            "__dpsql_c14" - 1
                          ), 0)
                        )
                      END
                    )
                  )
                )
              ) AS "__dpsql_c38"
            FROM (
              SELECT
                *
              FROM (
                SELECT
                  "__dpsql_c1" AS "__dpsql_c1",
                  "__dpsql_c2" AS "__dpsql_c2",
                  "__dpsql_c3" AS "__dpsql_c3",
                  CASE WHEN ISNAN("__dpsql_c7") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c7" + 0 END AS "__dpsql_c7",
                  CASE WHEN ISNAN("__dpsql_c11") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c11" + 0 END AS "__dpsql_c11",
                  CASE WHEN ISNAN("__dpsql_c12") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c12" + 0 END AS "__dpsql_c12",
                  "__dpsql_c14" AS "__dpsql_c14",
                  "__dpsql_c21" AS "__dpsql_c21",
                  CASE WHEN ISNAN("__dpsql_c22") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c22" + 0 END AS "__dpsql_c22",
                  CASE WHEN ISNAN("__dpsql_c23") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c23" + 0 END AS "__dpsql_c23",
                  "__dpsql_c25" AS "__dpsql_c25"
                FROM (
                  SELECT
                    "uid" AS "__dpsql_c1",
                    TRY("k" % 2) AS "__dpsql_c2",
                    MIN("__dpsql_c6") AS "__dpsql_c3",
                    MIN("__dpsql_c10") AS "__dpsql_c7",
                    CAST(SUM(
                      TRY_CAST(TRY(TRY_CAST("x" AS DOUBLE) * TRY_CAST("x" AS DOUBLE)) AS DECIMAL(25, 8))
                    ) AS DOUBLE) AS "__dpsql_c11",
                    CAST(SUM(TRY_CAST(TRY(TRY_CAST("x" AS DOUBLE)) AS DECIMAL(25, 8))) AS DOUBLE) AS "__dpsql_c12",
                    COUNT(TRY(TRY_CAST("x" AS DOUBLE))) AS "__dpsql_c14",
                    MIN("n") AS "__dpsql_c21",
                    CAST(SUM(
                      TRY_CAST(TRY(TRY_CAST("n" AS DOUBLE) * TRY_CAST("n" AS DOUBLE)) AS DECIMAL(25, 8))
                    ) AS DOUBLE) AS "__dpsql_c22",
                    CAST(SUM(TRY_CAST(TRY(TRY_CAST("n" AS DOUBLE)) AS DECIMAL(25, 8))) AS DOUBLE) AS "__dpsql_c23",
                    COUNT(TRY(TRY_CAST("n" AS DOUBLE))) AS "__dpsql_c25"
                  FROM (
                    SELECT
                      *,
                      FIRST_VALUE(CASE WHEN STRLEN("__dpsql_c4") <= 16384 THEN "__dpsql_c4" END) OVER (PARTITION BY "uid", "__dpsql_c32" ORDER BY "__dpsql_c5" DESC, "__dpsql_c4") AS "__dpsql_c6",
                      FIRST_VALUE("__dpsql_c8") OVER (PARTITION BY "uid", "__dpsql_c32" ORDER BY "__dpsql_c9", "__dpsql_c8") AS "__dpsql_c10"
                    FROM (
                      SELECT
                        *,
                        TRY("k" % 2) AS "__dpsql_c32",
                        CASE WHEN NOT (
                          "n"
                        ) IS NULL THEN "s" END AS "__dpsql_c4",
                        CASE WHEN NOT (
                          "s"
                        ) IS NULL THEN "n" END AS "__dpsql_c5",
                        CASE WHEN NOT (
                          "k"
                        ) IS NULL THEN "x" END AS "__dpsql_c8",
                        CASE WHEN NOT (
                          "x"
                        ) IS NULL THEN "k" END AS "__dpsql_c9"
                      FROM "visits"
                    )
                  )
                  GROUP BY
                    1,
                    2
                )
              )
              WHERE
                TRY(
                  (
                    TRY(
                      CASE
                        WHEN TRY(
                          (
                            "__dpsql_c22" - "__dpsql_c23" * "__dpsql_c23" / NULLIF("__dpsql_c25", 0)
                          ) / NULLIF("__dpsql_c25", 0) < TRY_CAST(0 AS DOUBLE)
                        )
                        THEN TRY(TRY_CAST(0 AS DOUBLE))
                        ELSE TRY(
                          (
                            "__dpsql_c22" - "__dpsql_c23" * "__dpsql_c23" / NULLIF("__dpsql_c25", 0)
                          ) / NULLIF("__dpsql_c25", 0)
                        )
                      END
                    )
                  ) < 1e6
                )
            )
          )
          WHERE
            NOT "__dpsql_c1" IS NULL
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

-- postgresql: not bound
-- spark: not bound

-- title: Totals of a unit's rows up to each
-- world: lineage
SELECT k, COUNT(*) FROM (SELECT k, SUM(x) OVER (PARTITION BY uid ORDER BY k) AS total, AVG(n) OVER (PARTITION BY uid) AS mean,
SUM(n) OVER (PARTITION BY uid, k) AS whole FROM visits) WHERE total > mean OR whole > 3 GROUP BY k;

-- __dpsql_released_0, as one: 60203cf7b4f8c369
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
        "__dpsql_c1" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0"
      FROM (
        SELECT
          *,
          CAST(SUM(TRY_CAST("__dpsql_c4" AS DECIMAL(25, 8))) OVER (PARTITION BY "__dpsql_c1" ORDER BY "__dpsql_c2") AS DOUBLE) AS "__dpsql_c6",
          CAST(SUM(TRY_CAST("__dpsql_c3" AS DECIMAL(25, 8))) OVER (PARTITION BY "__dpsql_c1") AS DOUBLE) / COUNT(TRY_CAST("__dpsql_c3" AS DECIMAL(25, 8))) OVER (PARTITION BY "__dpsql_c1") AS "__dpsql_c7",
          TRY_CAST(SUM(TRY_CAST("__dpsql_c3" AS BIGINT)) OVER (PARTITION BY "__dpsql_c1", "__dpsql_c2") AS BIGINT) AS "__dpsql_c8"
        FROM (
          SELECT
            "__dpsql_c1" AS "__dpsql_c1",
            "__dpsql_c2" AS "__dpsql_c2",
            "__dpsql_c3" AS "__dpsql_c3",
            CASE WHEN ISNAN("__dpsql_c4") THEN CAST('NaN' AS DOUBLE) ELSE "__dpsql_c4" + 0 END AS "__dpsql_c4"
          FROM (
            SELECT
              "uid" AS "__dpsql_c1",
              "k" AS "__dpsql_c2",
              "n" AS "__dpsql_c3",
              "x" AS "__dpsql_c4"
            FROM "visits"
          )
        )
      )
      WHERE
        NOT "__dpsql_c1" IS NULL
        AND (
          "__dpsql_c6" > "__dpsql_c7" OR "__dpsql_c8" > 3
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

-- postgresql: a712b2785107af39
-- spark: a8e8b742150ef511

-- title: PIVOT by listed values
-- world: small
PIVOT visits ON k IN (1, 2) USING COUNT(*), SUM(n) GROUP BY s;

-- __dpsql_released_0, as one: cb3ee4d5176590d4
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
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m2"), 0))) AS BIGINT) AS "__dpsql_m2",
    CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3",
    COUNT(*) AS "__dpsql_m4"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      LEAST("__dpsql_of0", 10) AS "__dpsql_m0",
      CAST(GREATEST(-50, LEAST(200, COALESCE("__dpsql_of1", 0))) AS BIGINT) AS "__dpsql_m1",
      LEAST("__dpsql_of2", 10) AS "__dpsql_m2",
      CAST(GREATEST(-50, LEAST(200, COALESCE("__dpsql_of3", 0))) AS BIGINT) AS "__dpsql_m3",
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
        COUNT("__dpsql_m0") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of0",
        SUM("__dpsql_m1") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of1",
        COUNT("__dpsql_m2") OVER (
          PARTITION BY "__dpsql_unit"
          ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
          RANGE BETWEEN CURRENT ROW AND CURRENT ROW
        ) AS "__dpsql_of2",
        SUM("__dpsql_m3") OVER (
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
          "__dpsql_m0" AS "__dpsql_m0",
          CASE
            WHEN "__dpsql_m1" <= -5
            THEN -5
            WHEN "__dpsql_m1" >= 20
            THEN 20
            ELSE TRY_CAST("__dpsql_m1" AS BIGINT)
          END AS "__dpsql_m1",
          "__dpsql_m2" AS "__dpsql_m2",
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
            "s" AS "__dpsql_k0",
            CASE WHEN "k" = 1 THEN 1 END AS "__dpsql_m0",
            CASE WHEN "k" = 1 THEN "n" END AS "__dpsql_m1",
            CASE WHEN "k" = 2 THEN 1 END AS "__dpsql_m2",
            CASE WHEN "k" = 2 THEN "n" END AS "__dpsql_m3"
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

-- postgresql: 5be279c496d5022b
-- spark: fca2c190f51574b1

-- title: UNPIVOT of two columns
-- world: small
SELECT m, COUNT(*), SUM(v) FROM visits UNPIVOT (v FOR m IN (n, x)) GROUP BY m;

-- __dpsql_released_0, as one: ab8a32352e9fcfed
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
    CAST(GREATEST(
      -4611686018427387904,
      LEAST(4611686018427387904, (
        COALESCE(SUM("__dpsql_m1"), 0) // 8192
      ))
    ) AS BIGINT) AS "__dpsql_m1",
    COUNT(*) AS "__dpsql_m2"
  FROM (
    SELECT
      "__dpsql_unit",
      "__dpsql_k0",
      "__dpsql_rank",
      LEAST("__dpsql_of0", 10) AS "__dpsql_m0",
      CAST(GREATEST(-1677721600, LEAST(6710886400, COALESCE("__dpsql_of1", 0))) AS BIGINT) AS "__dpsql_m1",
      LEAST("__dpsql_of0", 1) AS "__dpsql_m2"
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
            WHEN ISNAN(TRY_CAST("__dpsql_m1" AS DOUBLE))
            THEN NULL
            WHEN TRY_CAST("__dpsql_m1" AS DOUBLE) <= -5.0e0
            THEN -167772160
            WHEN TRY_CAST("__dpsql_m1" AS DOUBLE) >= 20.0e0
            THEN 671088640
            ELSE TRY_CAST(ROUND(TRY_CAST("__dpsql_m1" AS DOUBLE) / 2.9802322387695312e-08) AS BIGINT)
          END AS "__dpsql_m1"
        FROM (
          SELECT
            "__dpsql_c1" AS "__dpsql_unit",
            "__dpsql_c16" AS "__dpsql_k0",
            "__dpsql_c17" AS "__dpsql_m1"
          FROM (
            SELECT
              *,
              CASE
                WHEN "__dpsql_c16" = 'n'
                THEN "__dpsql_c4"
                WHEN "__dpsql_c16" = 'x'
                THEN "__dpsql_c6"
              END AS "__dpsql_c17"
            FROM (
              SELECT
                *
              FROM (
                SELECT
                  "__dpsql_c1",
                  "__dpsql_c2",
                  CASE WHEN STRLEN("__dpsql_c3") <= 16384 THEN "__dpsql_c3" END AS "__dpsql_c3",
                  "__dpsql_c4",
                  "__dpsql_c5",
                  "__dpsql_c6",
                  "__dpsql_c7",
                  "__dpsql_c8",
                  "__dpsql_c9",
                  "__dpsql_c10",
                  "__dpsql_c11",
                  CASE WHEN STRLEN("__dpsql_c12") <= 16384 THEN "__dpsql_c12" END AS "__dpsql_c12",
                  "__dpsql_c13"
                FROM (
                  SELECT
                    "Uid" AS "__dpsql_c1",
                    "k" AS "__dpsql_c2",
                    "s" AS "__dpsql_c3",
                    "n" AS "__dpsql_c4",
                    "big" AS "__dpsql_c5",
                    "x" AS "__dpsql_c6",
                    "wide" AS "__dpsql_c7",
                    "amount" AS "__dpsql_c8",
                    "d" AS "__dpsql_c9",
                    "ts" AS "__dpsql_c10",
                    "flag" AS "__dpsql_c11",
                    "c" AS "__dpsql_c12",
                    "order" AS "__dpsql_c13"
                  FROM "visits"
                )
              )
              JOIN (
                SELECT
                  CASE WHEN STRLEN("__dpsql_c16") <= 16384 THEN "__dpsql_c16" END AS "__dpsql_c16"
                FROM (
                  SELECT
                    "__dpsql_c15" AS "__dpsql_c16"
                  FROM (
                    SELECT
                      *,
                      CASE WHEN "__dpsql_c14" = 1 THEN 'n' ELSE 'x' END AS "__dpsql_c15"
                    FROM RANGE(1, 3) AS "__dpsql_numbers"("__dpsql_c14")
                  )
                )
              )
                ON (
                  TRUE
                )
              WHERE
                NOT CASE
                  WHEN "__dpsql_c16" = 'n'
                  THEN "__dpsql_c4"
                  WHEN "__dpsql_c16" = 'x'
                  THEN "__dpsql_c6"
                END IS NULL
            )
          )
          WHERE
            NOT "__dpsql_c1" IS NULL
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

-- postgresql: not bound
-- spark: not bound

-- title: SUMMARIZE of some columns
-- world: small
SUMMARIZE SELECT n, s, flag FROM visits WHERE k > 1;

-- __dpsql_released_0, as one: 92f9648eaac93122
WITH "__dpsql_groups" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER () AS "__dpsql_rid",
    "__dpsql_m0",
    "__dpsql_m1",
    "__dpsql_m2",
    "__dpsql_m3",
    "__dpsql_m4",
    "__dpsql_m5",
    "__dpsql_m6",
    "__dpsql_m7"
  FROM (
    WITH "__dpsql_kept" AS MATERIALIZED (
      SELECT
        *
      FROM (
        SELECT
          "__dpsql_unit",
          "__dpsql_m2",
          "__dpsql_m3",
          "__dpsql_m5",
          "__dpsql_m6",
          "__dpsql_m7",
          (
            (
              "__dpsql_m3" - 7
            ) * (
              "__dpsql_m3" - 7
            )
          ) AS "__dpsql_m4"
        FROM (
          SELECT
            "__dpsql_unit",
            CASE
              WHEN DENSE_RANK() OVER (
                PARTITION BY "__dpsql_unit"
                ORDER BY "__dpsql_m2" IS NULL, HASH(HASH(7, "__dpsql_unit", "__dpsql_m2")), "__dpsql_m2"
              ) <= 10
              THEN "__dpsql_m2"
            END AS "__dpsql_m2",
            CASE
              WHEN "__dpsql_m2" <= -5
              THEN -5
              WHEN "__dpsql_m2" >= 20
              THEN 20
              ELSE TRY_CAST("__dpsql_m2" AS BIGINT)
            END AS "__dpsql_m3",
            "__dpsql_m5" AS "__dpsql_m5",
            CASE
              WHEN DENSE_RANK() OVER (
                PARTITION BY "__dpsql_unit"
                ORDER BY "__dpsql_m5" IS NULL, HASH(HASH(7, "__dpsql_unit", "__dpsql_m5")), "__dpsql_m5"
              ) <= 10
              THEN "__dpsql_m5"
            END AS "__dpsql_m6",
            "__dpsql_m7" AS "__dpsql_m7"
          FROM (
            SELECT
              "Uid" AS "__dpsql_unit",
              "n" AS "__dpsql_m2",
              "s" AS "__dpsql_m5",
              "flag" AS "__dpsql_m7"
            FROM (
              SELECT
                *
              FROM "visits"
              WHERE
                "k" > 1
            )
            WHERE
              NOT "Uid" IS NULL
          )
        )
      )
    )
    SELECT
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m0"), 0))) AS BIGINT) AS "__dpsql_m0",
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m1"), 0))) AS BIGINT) AS "__dpsql_m1",
      COUNT(DISTINCT "__dpsql_m2") AS "__dpsql_m2",
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) AS "__dpsql_m3",
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m4"), 0))) AS BIGINT) AS "__dpsql_m4",
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m5"), 0))) AS BIGINT) AS "__dpsql_m5",
      COUNT(DISTINCT "__dpsql_m6") AS "__dpsql_m6",
      CAST(GREATEST(-4611686018427387904, LEAST(4611686018427387904, COALESCE(SUM("__dpsql_m7"), 0))) AS BIGINT) AS "__dpsql_m7"
    FROM (
      SELECT
        "__dpsql_unit",
        "__dpsql_m0" AS "__dpsql_m0",
        "__dpsql_m1" AS "__dpsql_m1",
        NULL AS "__dpsql_m2",
        "__dpsql_m3" AS "__dpsql_m3",
        "__dpsql_m4" AS "__dpsql_m4",
        "__dpsql_m5" AS "__dpsql_m5",
        NULL AS "__dpsql_m6",
        "__dpsql_m7" AS "__dpsql_m7"
      FROM (
        SELECT
          "__dpsql_unit",
          LEAST(COUNT(*), 10) AS "__dpsql_m0",
          LEAST(COUNT("__dpsql_m3"), 10) AS "__dpsql_m1",
          GREATEST(
            -130,
            LEAST(
              130,
              CASE
                WHEN COUNT("__dpsql_m3") <= 10
                THEN (
                  CAST(GREATEST(-50, LEAST(200, COALESCE(SUM("__dpsql_m3"), 0))) AS BIGINT) - (
                    LEAST(COUNT("__dpsql_m3"), 10) * 7
                  )
                )
                ELSE CAST(GREATEST(
                  -130,
                  LEAST(
                    130,
                    (
                      (
                        (
                          COALESCE(SUM("__dpsql_m3"), 0) - (
                            COUNT("__dpsql_m3") * 7
                          )
                        ) * 10
                      ) // COUNT("__dpsql_m3")
                    )
                  )
                ) AS BIGINT)
              END
            )
          ) AS "__dpsql_m3",
          GREATEST(
            -850,
            LEAST(
              850,
              CASE
                WHEN COUNT("__dpsql_m3") <= 10
                THEN (
                  CAST(GREATEST(0, LEAST(1690, COALESCE(SUM("__dpsql_m4"), 0))) AS BIGINT) - (
                    LEAST(COUNT("__dpsql_m3"), 10) * 84
                  )
                )
                ELSE CAST(GREATEST(
                  -850,
                  LEAST(
                    850,
                    (
                      (
                        (
                          COALESCE(SUM("__dpsql_m4"), 0) - (
                            COUNT("__dpsql_m3") * 84
                          )
                        ) * 10
                      ) // COUNT("__dpsql_m3")
                    )
                  )
                ) AS BIGINT)
              END
            )
          ) AS "__dpsql_m4",
          LEAST(COUNT("__dpsql_m5"), 10) AS "__dpsql_m5",
          LEAST(COUNT("__dpsql_m7"), 10) AS "__dpsql_m7"
        FROM (
          SELECT
            *
          FROM "__dpsql_kept"
        )
        GROUP BY
          "__dpsql_unit"
      )
      UNION ALL
      SELECT
        NULL,
        NULL,
        NULL,
        "__dpsql_m2",
        NULL,
        NULL,
        NULL,
        "__dpsql_m6",
        NULL
      FROM "__dpsql_kept"
    )
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
            CAST(HASH(HASH(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start"
          FROM (
            SELECT
              "Uid" AS "__dpsql_unit",
              "n" AS "__dpsql_value"
            FROM (
              SELECT
                *
              FROM "visits"
              WHERE
                "k" > 1
            )
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

-- __dpsql_released_0, values 0: fe622520141cee63
SELECT "__dpsql_rid", "__dpsql_point", count(*) AS "__dpsql_rows" FROM (SELECT "__dpsql_rid", "__dpsql_point", "__dpsql_start", row_number() OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit" ORDER BY "__dpsql_point") AS "__dpsql_number", count(*) OVER (PARTITION BY "__dpsql_rid", "__dpsql_unit") AS "__dpsql_size" FROM (SELECT g."__dpsql_rid", "__dpsql_unit", "__dpsql_point", "__dpsql_start" FROM (SELECT "__dpsql_unit", (CASE WHEN "__dpsql_value" <= -5 THEN -5 WHEN "__dpsql_value" >= 20 THEN 20 ELSE TRY_CAST("__dpsql_value" AS BIGINT) END - (-5)) AS "__dpsql_point", CAST(hash(hash(7, "__dpsql_unit", 0)) >> 32 AS BIGINT) AS "__dpsql_start" FROM (SELECT "Uid" AS "__dpsql_unit", "n" AS "__dpsql_value" FROM (SELECT * FROM "visits" WHERE "k" > 1) WHERE "Uid" IS NOT NULL)) p JOIN "__dpsql_groups" g ON TRUE WHERE "__dpsql_point" IS NOT NULL AND g."__dpsql_rid" IN (SELECT unnest(?::BIGINT[])))) WHERE "__dpsql_size" <= 10 OR ((("__dpsql_number" * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") > (((("__dpsql_number" - 1) * 10) + ("__dpsql_start" % "__dpsql_size")) // "__dpsql_size") GROUP BY "__dpsql_rid", "__dpsql_point" ORDER BY "__dpsql_rid", "__dpsql_point";

-- postgresql: 1c3ef7e38dacd341
-- spark: 5d0d4bb660ea66ae

-- title: A lookup in public rows, twice, and by a range of constants
-- world: lineage
SELECT (SELECT region FROM towns t WHERE t.city = p.city) AS r, (SELECT b.label FROM (VALUES (0, 40, 'young'), (40, 99, 'old')) b(low, high, label) WHERE p.age >= b.low AND p.age < b.high) AS g, count(*) FROM people p WHERE (SELECT region FROM towns t WHERE t.city = p.city) <> 'x' GROUP BY r, g;

-- __dpsql_released_0, as one: 518c23b963ca03d9
SELECT
  ROW_NUMBER() OVER () AS "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_m0",
  "__dpsql_m1"
FROM (
  SELECT
    "__dpsql_k0",
    "__dpsql_k1",
    COUNT(*) AS "__dpsql_m0",
    COUNT(CASE WHEN "__dpsql_row" = "__dpsql_first" THEN 1 END) AS "__dpsql_m1"
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
        "uid" AS "__dpsql_unit",
        "__dpsql_c2" AS "__dpsql_k0",
        "__dpsql_c9" AS "__dpsql_k1"
      FROM (
        SELECT
          "uid",
          CASE WHEN STRLEN("city") <= 16384 THEN "city" END AS "city",
          "age",
          CASE WHEN STRLEN("__dpsql_c1") <= 16384 THEN "__dpsql_c1" END AS "__dpsql_c1",
          CASE WHEN STRLEN("__dpsql_c2") <= 16384 THEN "__dpsql_c2" END AS "__dpsql_c2"
        FROM "people"
        LEFT JOIN (
          SELECT
            "__dpsql_c1",
            CASE WHEN STRLEN("__dpsql_c2") <= 16384 THEN "__dpsql_c2" END AS "__dpsql_c2"
          FROM (
            SELECT
              "city" AS "__dpsql_c1",
              "region" AS "__dpsql_c2"
            FROM "towns"
          )
        )
          ON (
            (
              "__dpsql_c1" = "city"
            )
          )
      )
      LEFT JOIN (
        SELECT
          "__dpsql_c7",
          "__dpsql_c8",
          CASE WHEN STRLEN("__dpsql_c9") <= 16384 THEN "__dpsql_c9" END AS "__dpsql_c9"
        FROM (
          SELECT
            "__dpsql_c4" AS "__dpsql_c7",
            "__dpsql_c5" AS "__dpsql_c8",
            "__dpsql_c6" AS "__dpsql_c9"
          FROM (
            SELECT
              *,
              CASE WHEN "__dpsql_c3" = 1 THEN 0 ELSE 40 END AS "__dpsql_c4",
              CASE WHEN "__dpsql_c3" = 1 THEN 40 ELSE 99 END AS "__dpsql_c5",
              CASE WHEN "__dpsql_c3" = 1 THEN 'young' ELSE 'old' END AS "__dpsql_c6"
            FROM RANGE(1, 3) AS "__dpsql_numbers"("__dpsql_c3")
          )
        )
      )
        ON (
          (
            "age" >= "__dpsql_c7"
          ) AND (
            "age" < "__dpsql_c8"
          )
        )
      WHERE
        NOT "uid" IS NULL AND (
          "__dpsql_c2" <> 'x'
        )
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0",
    "__dpsql_k1"
);

-- postgresql: bdaa5bbcb4ce725c
-- spark: e55421d978d642e2

-- title: A lookup along a link
-- world: lineage
SELECT (SELECT o.k FROM orders o WHERE o.okey = i.okey) AS ok, count(*) FROM items i GROUP BY ok;

-- __dpsql_released_0, as one: 18e668dae9538b95
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
        "__dpsql_c11" AS "__dpsql_unit",
        "__dpsql_c8" AS "__dpsql_k0"
      FROM (
        SELECT
          *,
          "__dpsql_c7" AS "__dpsql_c8"
        FROM "items"
        LEFT JOIN (
          SELECT
            "__dpsql_c1" AS "__dpsql_c5",
            "__dpsql_c3" AS "__dpsql_c6",
            MIN("__dpsql_c2") AS "__dpsql_c7"
          FROM (
            SELECT
              "okey" AS "__dpsql_c1",
              "k" AS "__dpsql_c2",
              "uid" AS "__dpsql_c3"
            FROM "orders"
          )
          GROUP BY
            1,
            2
        )
          ON (
            (
              "okey" = "__dpsql_c5"
            )
          )
      )
      JOIN (
        SELECT
          "okey" AS "__dpsql_c9",
          "k" AS "__dpsql_c10",
          "uid" AS "__dpsql_c11"
        FROM "orders"
      )
        ON (
          "okey" = "__dpsql_c9"
        )
      WHERE
        NOT "__dpsql_c11" IS NULL
    )
  )
  WHERE
    "__dpsql_rank" <= 10 AND (
      "__dpsql_row" - "__dpsql_first"
    ) < 10
  GROUP BY
    "__dpsql_k0"
);

-- postgresql: not bound
-- spark: not bound

