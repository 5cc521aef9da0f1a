-- The fence of a database: marks that writes are checked against in their own transaction.
--
-- A write takes the scope's advisory lock shared, a raise takes it alone. So a raise that has
-- committed had waited for every older write under way, and every later one reads the new mark.
-- Advisory locks live in memory: writes of one token run side by side, and leave no multixacts.

CREATE TABLE fencegate.fence (
    scope text COLLATE "C" PRIMARY KEY,
    era bigint NOT NULL,
    token bigint NOT NULL,
    burnt boolean NOT NULL DEFAULT false,
    holder text,
    updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);  -- room for the next version of the row on the same page (HOT update)

COMMENT ON TABLE fencegate.fence IS
    'Highest (era, token, burnt) per scope. Never lowered, except by a reset, which raises era.';

-- One row per write that changed something, in the write's own transaction. A row with rows IS
-- NULL is void: it was put there to find out how a write ended, and forbids it from then on.
CREATE TABLE fencegate.request (
    write_id text COLLATE "C" PRIMARY KEY,
    retry text COLLATE "C",
    rows bigint,
    body text,
    etag text,
    at timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX request_retry ON fencegate.request (retry) WHERE retry IS NOT NULL;

COMMENT ON TABLE fencegate.request IS
    'Writes by id, kept for a while so that a lost answer can be found out. Pruned by the gateway.';
COMMENT ON COLUMN fencegate.request.retry IS
    'Digest of the client''s own id of the request, the same for every attempt at it.';

CREATE FUNCTION fencegate.lock_key(p_scope text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(p_scope COLLATE "C", 7301);

-- A lock held by the transaction protects only what is read after it, and READ COMMITTED is the
-- one level at which a VOLATILE function's queries each see a fresh snapshot (PostgreSQL manual,
-- "Function Volatility Categories"). At the higher levels the check would pass on old data.
CREATE FUNCTION fencegate.demand_read_committed() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE SQLSTATE 'PT500' USING
            SCHEMA = 'fencegate',
            MESSAGE = 'the fence needs READ COMMITTED, and this transaction is '
                || upper(current_setting('transaction_isolation')),
            HINT = 'Do not override default_transaction_isolation for this connection.';
    END IF;
END $$;

-- Takes the scope's lock shared, then compares. A missing row answers NULLs and ok = false.
CREATE FUNCTION fencegate.admit(
    p_scope text, p_era bigint, p_token bigint, p_holder text,
    OUT ok boolean, OUT era bigint, OUT token bigint, OUT burnt boolean, OUT holder text
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM fencegate.demand_read_committed();
    PERFORM pg_advisory_xact_lock_shared(fencegate.lock_key(p_scope));
    SELECT f.era, f.token, f.burnt, f.holder INTO era, token, burnt, holder
        FROM fencegate.fence AS f WHERE f.scope = p_scope;
    ok := coalesce(
        era = p_era AND token = p_token AND NOT burnt
            AND (holder IS NULL OR p_holder IS NULL OR holder = p_holder),
        false);
END $$;

-- Raises the scope's mark, waits for older writes, and answers the mark as it is afterwards.
-- A token that is bound to another holder already is in two hands: it is burnt.
CREATE FUNCTION fencegate.raise_mark(
    p_scope text, p_era bigint, p_token bigint, p_burnt boolean, p_holder text,
    OUT era bigint, OUT token bigint, OUT burnt boolean, OUT holder text
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM fencegate.demand_read_committed();
    -- A mark that is visible has committed, and so had waited already: no lock, no write.
    SELECT f.era, f.token, f.burnt, f.holder INTO era, token, burnt, holder
        FROM fencegate.fence AS f WHERE f.scope = p_scope;
    IF (era, token, burnt) > (p_era, p_token, p_burnt)
        OR ((era, token, burnt) = (p_era, p_token, p_burnt)
            AND (p_holder IS NULL OR holder = p_holder)) THEN
        RETURN;
    END IF;
    -- In the body: a SET of the function itself would be undone before the commit.
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM pg_advisory_xact_lock(fencegate.lock_key(p_scope));
    INSERT INTO fencegate.fence AS f (scope, era, token, burnt, holder)
        VALUES (p_scope, p_era, p_token, p_burnt, p_holder)
    ON CONFLICT (scope) DO UPDATE SET
        era = EXCLUDED.era,
        token = EXCLUDED.token,
        burnt = EXCLUDED.burnt OR ((f.era, f.token) = (EXCLUDED.era, EXCLUDED.token)
            AND f.holder IS NOT NULL AND EXCLUDED.holder IS NOT NULL
            AND f.holder <> EXCLUDED.holder),
        holder = CASE WHEN (f.era, f.token, f.burnt) = (EXCLUDED.era, EXCLUDED.token, EXCLUDED.burnt)
            THEN coalesce(f.holder, EXCLUDED.holder) ELSE EXCLUDED.holder END,
        updated_at = now()
    WHERE (f.era, f.token, f.burnt) < (EXCLUDED.era, EXCLUDED.token, EXCLUDED.burnt)
        OR ((f.era, f.token, f.burnt) = (EXCLUDED.era, EXCLUDED.token, false)
            AND EXCLUDED.holder IS NOT NULL AND f.holder IS DISTINCT FROM EXCLUDED.holder);
    SELECT f.era, f.token, f.burnt, f.holder INTO era, token, burnt, holder
        FROM fencegate.fence AS f WHERE f.scope = p_scope;
END $$;

-- Lets the number of changed rows pass, or rolls the whole statement back: a singular answer
-- takes one row at most, max-affected as many as it says (PostgREST manual, "Preferences").
CREATE FUNCTION fencegate.limit_rows(p_rows bigint, p_single boolean, p_most bigint)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF p_single AND p_rows > 1 THEN
        RAISE SQLSTATE 'PT406' USING SCHEMA = 'fencegate', MESSAGE = p_rows::text;
    ELSIF p_rows > p_most THEN
        RAISE SQLSTATE 'PT400' USING SCHEMA = 'fencegate', MESSAGE = p_rows::text;
    END IF;
    RETURN p_rows;
END $$;

-- Finds out how a write ended, and makes the finding stay true. Whoever inserts the id first
-- wins: the write's own insert would fail on a void row, and this one waits for a write that has
-- inserted its row and is about to commit. Answers NULLs for a write that did not take effect.
CREATE FUNCTION fencegate.settle(
    p_write_id text, OUT rows bigint, OUT body text, OUT etag text
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM fencegate.demand_read_committed();
    INSERT INTO fencegate.request (write_id) VALUES (p_write_id)
        ON CONFLICT (write_id) DO NOTHING;
    SELECT r.rows, r.body, r.etag INTO rows, body, etag
        FROM fencegate.request AS r WHERE r.write_id = p_write_id;
END $$;

-- Forgets writes that nobody will ask about any more. Void rows are rare and stay much longer:
-- they are what keeps a write that is still on its way from being applied.
CREATE FUNCTION fencegate.prune(p_keep interval, p_keep_void interval, p_limit integer)
RETURNS bigint LANGUAGE sql VOLATILE AS $$
    WITH gone AS (
        DELETE FROM fencegate.request WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM fencegate.request
            WHERE at < now() - CASE WHEN rows IS NULL THEN p_keep_void ELSE p_keep END
            LIMIT p_limit FOR UPDATE SKIP LOCKED))
        RETURNING 1)
    SELECT count(*) FROM gone
$$;
