-- The fence of a database: marks that writes are checked against in their own transaction.
--
-- A write reads its scope's row LOCK IN SHARE MODE, a raise FOR UPDATE. So a raise that has
-- committed had waited for every older write under way, and every later one reads the new mark.

CREATE TABLE IF NOT EXISTS fencegate_fence (
    scope varchar(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL PRIMARY KEY,
    era bigint NOT NULL,
    token bigint NOT NULL,
    burnt tinyint(1) NOT NULL DEFAULT 0,
    holder varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin,
    updated_at timestamp(3) NOT NULL DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3)
) ENGINE = InnoDB
COMMENT = 'Highest (era, token, burnt) per scope; only a reset, which raises era, lowers it.';

-- One row per write that changed something, in the write's own transaction. A row with affected
-- IS NULL is void: it was put there to find out how a write ended, and forbids it from then on.
CREATE TABLE IF NOT EXISTS fencegate_request (
    write_id varchar(64) CHARACTER SET ascii COLLATE ascii_nopad_bin NOT NULL PRIMARY KEY,
    retry varchar(64) CHARACTER SET ascii COLLATE ascii_nopad_bin,
    affected bigint,
    body mediumtext CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin,
    etag varchar(32) CHARACTER SET ascii COLLATE ascii_nopad_bin,
    made tinyint(1),
    at timestamp(3) NOT NULL DEFAULT current_timestamp(3),
    UNIQUE KEY request_retry (retry),
    KEY request_age (at)
) ENGINE = InnoDB
COMMENT = 'Writes by id, kept for a while so that a lost answer can be found out.';
