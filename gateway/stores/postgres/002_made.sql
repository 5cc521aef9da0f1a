-- How many rows of a write were made rather than merged into what stood there: the answer to an
-- upsert differs (201 or 200), and a retry of it gets the same one.

ALTER TABLE fencegate.request ADD COLUMN made bigint;

DROP FUNCTION fencegate.settle(text);

-- Finds out how a write ended, and makes the finding stay true. Whoever inserts the id first
-- wins: the write's own insert would fail on a void row, and this one waits for a write that has
-- inserted its row and is about to commit. Answers NULLs for a write that did not take effect.
CREATE FUNCTION fencegate.settle(
    p_write_id text, OUT rows bigint, OUT body text, OUT etag text, OUT made bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM fencegate.demand_read_committed();
    INSERT INTO fencegate.request (write_id) VALUES (p_write_id)
        ON CONFLICT (write_id) DO NOTHING;
    SELECT r.rows, r.body, r.etag, r.made INTO rows, body, etag, made
        FROM fencegate.request AS r WHERE r.write_id = p_write_id;
END $$;
