CREATE TABLE alembic_version (
  version_num character varying(32) NOT NULL,
  PRIMARY KEY (version_num)
);
CREATE TABLE batches (
  batch bigint NOT NULL,
  task bigint NOT NULL,
  number bigint NOT NULL,
  state character varying NOT NULL,
  num_reports bigint NOT NULL,
  wrapped_nonce bytea,
  closed_at bigint,
  inventory bytea,
  inventories bytea,
  cohort bytea,
  missing bytea,
  request_hash bytea,
  aggregate bytea,
  released_at bigint,
  "first" bigint,
  wrapped_matrix_nonce bytea,
  check_share bytea,
  verdict bytea,
  rejected bytea,
  ended_by character varying,
  PRIMARY KEY (batch)
);
CREATE TABLE journal (
  one bigint NOT NULL,
  length bigint NOT NULL,
  digest bytea NOT NULL,
  start bigint NOT NULL,
  PRIMARY KEY (one)
);
CREATE TABLE looks (
  batch bigint NOT NULL,
  told_at bigint NOT NULL,
  counters bytea NOT NULL,
  counted_at bigint,
  reports bigint NOT NULL,
  census bytea,
  mac bytea NOT NULL,
  PRIMARY KEY (batch)
);
CREATE TABLE segments (
  key bigint NOT NULL,
  total bigint NOT NULL,
  mark bytea NOT NULL,
  ids bytea NOT NULL,
  serials bytea,
  payloads bytea,
  PRIMARY KEY (key)
);
ALTER TABLE segments ALTER ids SET STORAGE EXTERNAL;
ALTER TABLE segments ALTER payloads SET STORAGE EXTERNAL;
CREATE TABLE tasks (
  task bigint NOT NULL,
  task_id bytea NOT NULL,
  definition bytea NOT NULL,
  wrapped_token_key bytea,
  PRIMARY KEY (task)
);
