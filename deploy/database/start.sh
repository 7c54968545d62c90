#!/bin/sh
# PostgreSQL for one server. The first start draws a password and makes the database; the server learns both from one
# file in /address that only its own user can read, and nothing else learns them.
set -eu
umask 077
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/postgres | sort -V | tail -1)")
data=/database/data
if ! test -s "$data/.made"; then
    rm -rf "$data"
    "$bin/initdb" --pgdata "$data" --username postgres --auth-local trust --auth-host scram-sha-256 --encoding UTF8 \
        --locale C.UTF-8 --data-checksums >/dev/null
    echo 'host lintra lintra samenet scram-sha-256' >>"$data/pg_hba.conf"
    password=$(head -c 24 /dev/urandom | base64 | tr +/ ._)
    "$bin/postgres" --single -D "$data" -j postgres >/dev/null <<SQL
CREATE ROLE lintra LOGIN PASSWORD '$password';

CREATE DATABASE lintra OWNER lintra;

SQL
    printf 'postgresql://lintra:%s@%s/lintra\n' "$password" "${DATABASE_NAME:?}" >/address/url.new
    mv /address/url.new /address/url
    echo made >"$data/.made"
fi
# A server refuses to start on a PostgreSQL that has one of the three off. The socket is this container's own.
exec "$bin/postgres" -D "$data" -k /tmp -c 'listen_addresses=*' -c fsync=on -c full_page_writes=on -c synchronous_commit=on
