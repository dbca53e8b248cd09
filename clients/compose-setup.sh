#!/bin/sh
# Throw-away certificates, keyrings and router configurations for docker-compose.yml: compose-setup.sh DIR
# Made once. Routers get a certificate and a configuration; only the clients get keyrings, each its own.
set -eu
keys=$1
[ ! -e "$keys/owner/done" ] || exit 0
umask 077
mkdir -p "$keys/owner"
secroute keys ca --out "$keys/owner/ca"

for n in 1 2 3; do
    next=$((n % 3 + 1)) before=$(((n + 1) % 3 + 1))
    mkdir -p "$keys/router-$n"
    secroute keys issue --ca "$keys/owner/ca" --name "router-$n" --role router --out "$keys/router-$n" \
        --host "router-$n" --host localhost --host 127.0.0.1
    cp "$keys/owner/ca/ca.crt" "$keys/router-$n/ca.crt"
    cat > "$keys/router-$n/router.toml" <<CONFIG
listen = "0.0.0.0:7400"
metrics_listen = "0.0.0.0:9464"
[tls]
certificate = "router-$n.crt"
key = "router-$n.key"
client_ca = "ca.crt"
[store]
path = "/var/lib/secroute/store.db"
[overlay]
name = "router-$n"
[[neighbour]]
name = "router-$next"
address = "router-$next:7400"
[[neighbour]]
name = "router-$before"
[[client]]
name = "offers"
may = ["publish"]
[[client]]
name = "desk-*"
may = ["subscribe"]
CONFIG
done

secroute keys init --keyring "$keys/owner/flights.keyring" --name flights
for name in offers desk-1 desk-2; do
    mkdir -p "$keys/$name"
    secroute keys issue --ca "$keys/owner/ca" --name "$name" --role client --out "$keys/$name"
    cp "$keys/owner/ca/ca.crt" "$keys/$name/ca.crt"
    identity=$(secroute keys identity --keyring "$keys/$name/flights.keyring")
    secroute keys grant --keyring "$keys/owner/flights.keyring" --member "$name" --identity "$identity" \
        --out "$keys/$name/flights.grant"
    secroute keys accept --keyring "$keys/$name/flights.keyring" --grant "$keys/$name/flights.grant"
done
touch "$keys/owner/done"
[ -z "${OWNER:-}" ] || chown -R "$OWNER" "$keys"
