BEGIN TRANSACTION;
CREATE TABLE documents (
	task_id VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	server INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (task_id, kind, server), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
CREATE TABLE jobs (
	task_id VARCHAR NOT NULL, 
	stage VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	problem VARCHAR, 
	release_id VARCHAR, 
	PRIMARY KEY (task_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
CREATE TABLE meta (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "meta" VALUES(1);
CREATE TABLE pins (
	url VARCHAR NOT NULL, 
	identity_key VARCHAR NOT NULL, 
	PRIMARY KEY (url)
);
INSERT INTO "pins" VALUES('https://one.example','KKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKK');
CREATE TABLE registrations (
	task_id VARCHAR NOT NULL, 
	server INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	problem VARCHAR, 
	PRIMARY KEY (task_id, server), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
CREATE TABLE releases (
	number INTEGER NOT NULL, 
	release_id VARCHAR NOT NULL, 
	task_id VARCHAR NOT NULL, 
	record BLOB NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (release_id), 
	UNIQUE (task_id), 
	FOREIGN KEY(task_id) REFERENCES tasks (task_id)
);
CREATE TABLE tasks (
	number INTEGER NOT NULL, 
	task_id VARCHAR NOT NULL, 
	record BLOB NOT NULL, 
	specification BLOB NOT NULL, 
	request_key VARCHAR, 
	created_at INTEGER NOT NULL, 
	PRIMARY KEY (number), 
	UNIQUE (task_id), 
	UNIQUE (request_key)
);
INSERT INTO "tasks" VALUES(1,'TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT',X'7B7D',X'7B7D',NULL,1800000000);
COMMIT;
