-- title: Which keys there are
-- world: small
-- with: 'max_groups_contributed': 3
SELECT DISTINCT k FROM visits;

-- __dpsql_released_0, as one: dcbe7a1a9923ee9c
WITH "__dpsql_kept" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    "__dpsql_k0"
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
), "__dpsql_keys" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER (ORDER BY HASH(HASH(7, "__dpsql_k0")), "__dpsql_k0") AS "__dpsql_rid",
    "__dpsql_k0"
  FROM (
    SELECT DISTINCT
      "__dpsql_k0"
    FROM "__dpsql_kept"
  )
), "__dpsql_units" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    ROW_NUMBER() OVER (ORDER BY HASH(HASH(7, "__dpsql_unit")), "__dpsql_unit") - 1 AS "__dpsql_position"
  FROM (
    SELECT DISTINCT
      "__dpsql_unit"
    FROM "__dpsql_kept"
  )
), "__dpsql_pairs" AS MATERIALIZED (
  SELECT
    "__dpsql_position",
    "__dpsql_rid"
  FROM "__dpsql_kept" AS p
  JOIN "__dpsql_keys" AS k
    ON p."__dpsql_k0" IS NOT DISTINCT FROM k."__dpsql_k0"
  JOIN "__dpsql_units"
    USING ("__dpsql_unit")
  ORDER BY
    "__dpsql_position",
    "__dpsql_rid"
)
SELECT
  "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_position"
FROM "__dpsql_pairs"
JOIN "__dpsql_keys"
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_position",
  "__dpsql_rid";

-- __dpsql_released_0, some pairs: efb802fb7bddf785
SELECT
  "__dpsql_position",
  "__dpsql_rid" - 1
FROM "__dpsql_pairs"
WHERE
  "__dpsql_position" >= ? AND "__dpsql_position" < ?
ORDER BY
  "__dpsql_position",
  "__dpsql_rid";

-- __dpsql_released_0, named keys: aaf173b6234fe3f4
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_keys" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- postgresql: 92b8e4b6f32afc2f
-- spark: 2d5c0f8208046c12

-- title: Which keys there are, counted
-- world: small
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'weighted_gaussian_set_union') DISTINCT k FROM visits;

-- __dpsql_released_0, as one: e4af232d49933588
WITH "__dpsql_kept" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    "__dpsql_k0"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0")), "__dpsql_k0"
      ) AS "__dpsql_rank"
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
  )
  WHERE
    "__dpsql_rank" <= 10
), "__dpsql_keys" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER (ORDER BY "__dpsql_k0") AS "__dpsql_rid",
    "__dpsql_k0",
    "__dpsql_weight"
  FROM (
    SELECT
      "__dpsql_k0",
      CAST(LEAST(SUM(CAST(FLOOR(67108864 / SQRT("__dpsql_size")) AS BIGINT)), 4611686018427387904) AS BIGINT) AS "__dpsql_weight"
    FROM "__dpsql_kept"
    JOIN (
      SELECT
        "__dpsql_unit",
        COUNT(*) AS "__dpsql_size"
      FROM "__dpsql_kept"
      GROUP BY
        "__dpsql_unit"
    )
      USING ("__dpsql_unit")
    GROUP BY
      "__dpsql_k0"
  )
)
SELECT
  "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_weight"
FROM "__dpsql_keys"
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, weights: 2c792b49d73d37fd
SELECT
  "__dpsql_weight"
FROM "__dpsql_keys"
ORDER BY
  "__dpsql_rid";

-- __dpsql_released_0, named keys: aaf173b6234fe3f4
SELECT "__dpsql_rid", "__dpsql_k0" FROM "__dpsql_keys" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- postgresql: 4d709afb807bd5a5
-- spark: b494f46bf2b560b3

-- title: Which keys there are, by a policy
-- world: small
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (mechanism = 'policy_gaussian_set_union') DISTINCT s, k
FROM visits;

-- __dpsql_released_0, as one: 45e81177a1605b5f
WITH "__dpsql_kept" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    "__dpsql_k0",
    "__dpsql_k1"
  FROM (
    SELECT
      *,
      DENSE_RANK() OVER (
        PARTITION BY "__dpsql_unit"
        ORDER BY HASH(HASH(7, "__dpsql_unit", "__dpsql_k0", "__dpsql_k1")), "__dpsql_k0", "__dpsql_k1"
      ) AS "__dpsql_rank"
    FROM (
      SELECT DISTINCT
        "__dpsql_unit",
        "__dpsql_k0",
        "__dpsql_k1"
      FROM (
        SELECT
          "Uid" AS "__dpsql_unit",
          "s" AS "__dpsql_k0",
          "k" AS "__dpsql_k1"
        FROM "visits"
        WHERE
          NOT "Uid" IS NULL
      )
    )
  )
  WHERE
    "__dpsql_rank" <= 10
), "__dpsql_keys" AS MATERIALIZED (
  SELECT
    ROW_NUMBER() OVER (ORDER BY "__dpsql_k0", "__dpsql_k1") AS "__dpsql_rid",
    "__dpsql_k0",
    "__dpsql_k1"
  FROM (
    SELECT DISTINCT
      "__dpsql_k0",
      "__dpsql_k1"
    FROM "__dpsql_kept"
  )
), "__dpsql_units" AS MATERIALIZED (
  SELECT
    "__dpsql_unit",
    ROW_NUMBER() OVER (ORDER BY HASH(HASH(7, "__dpsql_unit")), "__dpsql_unit") - 1 AS "__dpsql_position"
  FROM (
    SELECT DISTINCT
      "__dpsql_unit"
    FROM "__dpsql_kept"
  )
), "__dpsql_pairs" AS MATERIALIZED (
  SELECT
    "__dpsql_position",
    "__dpsql_rid"
  FROM "__dpsql_kept" AS p
  JOIN "__dpsql_keys" AS k
    ON p."__dpsql_k0" IS NOT DISTINCT FROM k."__dpsql_k0"
    AND p."__dpsql_k1" IS NOT DISTINCT FROM k."__dpsql_k1"
  JOIN "__dpsql_units"
    USING ("__dpsql_unit")
  ORDER BY
    "__dpsql_position",
    "__dpsql_rid"
)
SELECT
  "__dpsql_rid",
  "__dpsql_k0",
  "__dpsql_k1",
  "__dpsql_position"
FROM "__dpsql_pairs"
JOIN "__dpsql_keys"
  USING ("__dpsql_rid")
ORDER BY
  "__dpsql_position",
  "__dpsql_rid";

-- __dpsql_released_0, some pairs: efb802fb7bddf785
SELECT
  "__dpsql_position",
  "__dpsql_rid" - 1
FROM "__dpsql_pairs"
WHERE
  "__dpsql_position" >= ? AND "__dpsql_position" < ?
ORDER BY
  "__dpsql_position",
  "__dpsql_rid";

-- __dpsql_released_0, named keys: 3e66ddf840eb6a16
SELECT "__dpsql_rid", "__dpsql_k0", "__dpsql_k1" FROM "__dpsql_keys" WHERE "__dpsql_rid" IN (SELECT unnest(?::BIGINT[]));

-- postgresql: a2e9878af8e5a2cc
-- spark: 25bad78fd1e62a35

