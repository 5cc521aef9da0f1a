-- The ledger (gateway/machines/ledger.py) as functions: one round trip and one transaction a step.
-- "@" stands for the schema's quoted name. Each function that reads before it writes takes the lock of
-- what it rules on first; later statements of a function see all that was committed until then
-- (PostgreSQL manual, 13.2.1 "Read Committed", and 38.7 "Function Volatility": VOLATILE).

CREATE TABLE IF NOT EXISTS @.meta (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE IF NOT EXISTS @.marks (
    scope text COLLATE "C" PRIMARY KEY,
    era bigint NOT NULL DEFAULT 1,
    token bigint NOT NULL DEFAULT 0,
    burnt boolean NOT NULL DEFAULT false,
    holder text
);

CREATE TABLE IF NOT EXISTS @.registrations (
    scope text COLLATE "C",
    id text,
    replica text NOT NULL,
    generation text NOT NULL,
    era bigint NOT NULL,
    token bigint NOT NULL,
    PRIMARY KEY (scope, id)
);
CREATE INDEX IF NOT EXISTS registrations_generation ON @.registrations (generation);

CREATE TABLE IF NOT EXISTS @.members (
    generation text PRIMARY KEY,
    replica text NOT NULL,
    beat bigint NOT NULL DEFAULT 0,
    incarnation text NOT NULL,
    rules text
);

CREATE TABLE IF NOT EXISTS @.inbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    generation text NOT NULL,
    scope text NOT NULL,
    era bigint NOT NULL,
    token bigint NOT NULL,
    burnt boolean NOT NULL,
    holder text
);
CREATE INDEX IF NOT EXISTS inbox_generation ON @.inbox (generation, number);

CREATE TABLE IF NOT EXISTS @.audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    scope text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL,
    era_before bigint NOT NULL,
    token_before bigint NOT NULL
);

-- The schema, the cluster and its timeline: an emptied database changes the first, a dump that was loaded elsewhere
-- the second, a promoted standby and a recovery to a point in time the third (manual, 26.3.5 "Timelines"). A restart loses nothing that was
-- committed, unless fsync is off: then the start counts too. Fails on a standby, which must not serve.
CREATE OR REPLACE FUNCTION @.incarnation() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT (SELECT value FROM @.meta WHERE name = 'identity') || '.'
        || system_identifier || '.' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
        || CASE current_setting('fsync') WHEN 'on' THEN ''
           ELSE '.' || extract(epoch FROM pg_postmaster_start_time()) END
    FROM pg_control_system()
$$;

-- A raise is durable on this server, and on its synchronous standbys, before it is answered, whatever the
-- role's default says (manual, 20.5.1 "synchronous_commit").
CREATE OR REPLACE FUNCTION @.durably() RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
           THEN set_config('synchronous_commit', 'on', true) END
$$;

-- A current member's row is kept from being ended until the step is committed.
CREATE OR REPLACE FUNCTION @.is_current(asker text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM @.members m
    WHERE m.generation = asker AND m.incarnation = @.incarnation() FOR KEY SHARE;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION @.tell(told_scope text, mark @.marks, up_to_burnt boolean)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    one text;
BEGIN
    FOR one IN
        SELECT DISTINCT generation FROM @.registrations r
        WHERE r.scope = told_scope AND (r.era, r.token, false) < (mark.era, mark.token, up_to_burnt)
    LOOP
        INSERT INTO @.inbox (generation, scope, era, token, burnt, holder)
        VALUES (one, told_scope, mark.era, mark.token, mark.burnt, mark.holder);
        PERFORM pg_notify('fencegate', one);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION @.opened(asked_scope text) RETURNS @.marks LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mark @.marks;
BEGIN
    INSERT INTO @.marks (scope) VALUES (asked_scope) ON CONFLICT DO NOTHING;
    SELECT * INTO STRICT mark FROM @.marks m WHERE m.scope = asked_scope FOR UPDATE;
    RETURN mark;
END $$;

-- A scope that nobody holds anything of has no row.
CREATE OR REPLACE FUNCTION @.tidied(mark @.marks) RETURNS void LANGUAGE sql VOLATILE AS $$
    DELETE FROM @.marks m WHERE m.scope = (mark).scope
        AND m.era = 1 AND m.token = 0 AND NOT m.burnt AND m.holder IS NULL
        AND NOT EXISTS (SELECT FROM @.registrations r WHERE r.scope = m.scope)
$$;

CREATE OR REPLACE FUNCTION @.claim(
    asked_scope text, asked_era bigint, asked_token bigint, asked_holder text,
    asker_replica text, asker text, registration text, max_jump bigint,
    gives_up text[] DEFAULT '{}',
    OUT verdict text, OUT era bigint, OUT token bigint, OUT burnt boolean, OUT holder text,
    OUT old_era bigint, OUT old_token bigint, OUT old_burnt boolean, OUT old_holder text,
    OUT ids text[], OUT replicas text[], OUT generations text[], OUT eras bigint[], OUT tokens bigint[]
) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before @.marks;
    risen @.marks;
    wanted bigint;
    top CONSTANT bigint := 9223372036854775807;
BEGIN
    IF NOT @.is_current(asker) THEN
        verdict := 'ended';
        RETURN;
    END IF;
    PERFORM @.durably();
    before := @.opened(asked_scope);
    risen := before;
    IF asked_token IS NULL THEN
        wanted := CASE WHEN before.token < top THEN before.token + 1 END;  -- NULL: there is no next one
    ELSE
        wanted := asked_token;
    END IF;
    IF asked_era <> before.era THEN
        verdict := 'era';
    ELSIF wanted IS NULL OR wanted < before.token THEN
        verdict := 'stale';
    ELSIF wanted = before.token AND before.burnt THEN
        verdict := 'burnt';
    ELSIF wanted = before.token AND before.holder <> asked_holder THEN
        verdict := 'burns';
        risen.burnt := true;
        risen.holder := NULL;
        UPDATE @.marks m SET burnt = true, holder = NULL WHERE m.scope = asked_scope;
        PERFORM @.tell(asked_scope, risen, true);
    ELSIF max_jump IS NOT NULL AND asked_token IS NOT NULL AND before.token > 0
            AND wanted - before.token > max_jump THEN
        verdict := 'implausible';
    ELSE
        verdict := CASE WHEN wanted > before.token THEN 'raised' ELSE 'claimed' END;
        IF wanted > before.token THEN
            risen.token := wanted;
            risen.burnt := false;
            risen.holder := asked_holder;
        ELSE
            risen.holder := coalesce(before.holder, asked_holder);
        END IF;
        IF risen IS DISTINCT FROM before THEN
            UPDATE @.marks m SET token = risen.token, burnt = risen.burnt, holder = risen.holder
            WHERE m.scope = asked_scope;
        END IF;
        INSERT INTO @.registrations
        VALUES (asked_scope, registration, asker_replica, asker, risen.era, risen.token)
        ON CONFLICT DO NOTHING;
        DELETE FROM @.registrations r
        WHERE r.scope = asked_scope AND r.generation = asker AND r.id = ANY(gives_up)
            AND (r.era, r.token) < (risen.era, risen.token);
        PERFORM @.tell(asked_scope, risen, false);
        SELECT array_agg(r.id), array_agg(r.replica), array_agg(r.generation),
               array_agg(r.era), array_agg(r.token)
        INTO ids, replicas, generations, eras, tokens
        FROM @.registrations r
        WHERE r.scope = asked_scope AND (r.era, r.token) < (risen.era, risen.token);
    END IF;
    PERFORM @.tidied(risen);
    era := risen.era; token := risen.token; burnt := risen.burnt; holder := risen.holder;
    old_era := before.era; old_token := before.token; old_burnt := before.burnt; old_holder := before.holder;
END $$;

CREATE OR REPLACE FUNCTION @.pending(
    asked_scope text, mark_era bigint, mark_token bigint, mark_burnt boolean, asker text
) RETURNS TABLE (
    id text, replica text, generation text, era bigint, token bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT @.is_current(asker) THEN
        RETURN QUERY SELECT NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::bigint;
        RETURN;
    END IF;
    RETURN QUERY SELECT r.id, r.replica, r.generation, r.era, r.token FROM @.registrations r
        WHERE r.scope = asked_scope AND (r.era, r.token, false) < (mark_era, mark_token, mark_burnt);
END $$;

-- One at a time, so that two that join at once do not overlook each other.
CREATE OR REPLACE FUNCTION @.agree(asker text, asked_rules text)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM @.meta WHERE name = 'schema' FOR UPDATE;
    IF NOT @.is_current(asker) OR EXISTS (
        SELECT FROM @.members m WHERE m.generation <> asker AND m.rules <> asked_rules
    ) THEN
        RETURN false;
    END IF;
    UPDATE @.members m SET rules = asked_rules WHERE m.generation = asker;
    RETURN true;
END $$;

-- Ends a generation, where its beat is the one that was seen (NULL: whatever it is).
CREATE OR REPLACE FUNCTION @.finish(ended_replica text, ended text, beat_seen bigint)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM @.durably();
    DELETE FROM @.members m WHERE m.generation = ended AND m.replica = ended_replica
        AND (beat_seen IS NULL OR m.beat = beat_seen);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM @.registrations r WHERE r.generation = ended;
    DELETE FROM @.inbox i WHERE i.generation = ended;
    RETURN true;
END $$;

-- Starts the next era when nothing stands, closes the current one until then (protocol, rule 15).
CREATE OR REPLACE FUNCTION @.reset(asked_scope text, asked_era bigint, why text)
RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    old @.marks;
    closed @.marks;
    top CONSTANT bigint := 9223372036854775807;
BEGIN
    PERFORM @.durably();
    old := @.opened(asked_scope);
    IF old.era <> asked_era THEN
        PERFORM @.tidied(old);
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM @.registrations r WHERE r.scope = asked_scope) THEN
        closed := old;
        closed.token := top;
        closed.burnt := true;
        closed.holder := NULL;
        IF closed IS DISTINCT FROM old THEN
            UPDATE @.marks m SET token = top, burnt = true, holder = NULL WHERE m.scope = asked_scope;
            PERFORM @.tell(asked_scope, closed, true);
        END IF;
        RETURN NULL;
    END IF;
    UPDATE @.marks m SET era = old.era + 1, token = 0, burnt = false, holder = NULL
    WHERE m.scope = asked_scope;
    INSERT INTO @.audit (scope, action, reason, era_before, token_before)
    VALUES (asked_scope, 'reset', why, old.era, old.token);
    RETURN old.era + 1;
END $$;

CREATE OR REPLACE FUNCTION @.recall(
    asked_scope text, seen_era bigint, seen_token bigint, seen_burnt boolean, seen_holder text
) RETURNS @.marks LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    mark @.marks;
BEGIN
    PERFORM @.durably();
    mark := @.opened(asked_scope);
    IF (seen_era, seen_token, seen_burnt) > (mark.era, mark.token, mark.burnt) THEN
        UPDATE @.marks m SET era = seen_era, token = seen_token, burnt = seen_burnt, holder = seen_holder
        WHERE m.scope = asked_scope RETURNING m.* INTO mark;
    END IF;
    PERFORM @.tidied(mark);
    RETURN mark;
END $$;
