//! Clients of protocols that know of no proxy.

use super::Client;

#[test]
fn psql_asks_a_database() {
    Client {
        host: "pg.test",
        needs: "psql --version",
        script: "PGCONNECT_TIMEOUT=10 psql -h pg.test -U test -d test -Atc 'select word'",
        says: "word of postgres",
    }
    .works("databases::psql_asks_a_database");
}

#[test]
fn redis_cli_asks_a_server() {
    Client {
        host: "redis.test",
        needs: "redis-cli --version",
        // It ends well where it cannot connect.
        script: "redis-cli -h redis.test get word | grep word",
        says: "word of redis",
    }
    .works("databases::redis_cli_asks_a_server");
}
