-- Tables of version 0006, the first on PostgreSQL: a server's of that version, never changed any more.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    PRIMARY KEY (version_num)
);
CREATE TABLE journal (
    one BIGSERIAL NOT NULL,
    length BIGINT NOT NULL,
    digest BYTEA NOT NULL,
    start BIGINT NOT NULL,
    barred_before BIGINT NOT NULL,
    PRIMARY KEY (one)
);
CREATE TABLE sealing_keys (
    key_id BYTEA NOT NULL,
    suite VARCHAR NOT NULL,
    secret BYTEA,
    wrapped BYTEA NOT NULL,
    valid_from BIGINT NOT NULL,
    valid_until BIGINT NOT NULL,
    PRIMARY KEY (key_id)
);
CREATE TABLE segments (
    key BIGINT NOT NULL,
    total BIGINT NOT NULL,
    ids BYTEA NOT NULL,
    serials BYTEA,
    payloads BYTEA,
    PRIMARY KEY (key)
);
CREATE TABLE tasks (
    task BIGSERIAL NOT NULL,
    task_id BYTEA NOT NULL,
    definition BYTEA NOT NULL,
    author VARCHAR DEFAULT '' NOT NULL,
    server BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    retention BIGINT NOT NULL,
    wrapped_token_key BYTEA,
    PRIMARY KEY (task),
    UNIQUE (task_id)
);
CREATE TABLE batches (
    batch BIGSERIAL NOT NULL,
    task BIGINT NOT NULL,
    number BIGINT NOT NULL,
    ends BIGINT NOT NULL,
    state VARCHAR NOT NULL,
    num_reports BIGINT NOT NULL,
    capacity BIGINT NOT NULL,
    secret BYTEA,
    wrapped_key BYTEA,
    wrapped_nonce BYTEA,
    closed_at BIGINT,
    inventory BYTEA,
    inventories BYTEA,
    cohort BYTEA,
    excluded BYTEA,
    request_hash BYTEA,
    aggregate BYTEA,
    released_at BIGINT,
    PRIMARY KEY (batch),
    UNIQUE (task, number),
    FOREIGN KEY(task) REFERENCES tasks (task)
);
CREATE TABLE looks (
    batch BIGINT NOT NULL,
    told_at BIGINT NOT NULL,
    counters BYTEA NOT NULL,
    counted_at BIGINT,
    reports BIGINT NOT NULL,
    census BYTEA,
    PRIMARY KEY (batch),
    FOREIGN KEY(batch) REFERENCES batches (batch)
);
ALTER TABLE segments ALTER ids SET STORAGE EXTERNAL, ALTER payloads SET STORAGE EXTERNAL;
INSERT INTO alembic_version VALUES ('0006');
