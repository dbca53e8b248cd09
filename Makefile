# Every target does its own set-up from a clone.
.PHONY: setup setup-java demo test lint soak bench proto clean

setup:
	@.ci/bootstrap

setup-java:
	@.ci/bootstrap --java

demo: setup ## the product in half a minute: router, publishers, subscribers
	@.venv/bin/secroute demo

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache

test: setup-java lint ## every test with a reduced number of random cases
	.venv/bin/python -m pytest

soak: setup-java ## the full numbers: random cases, crashes, seeds
	SECROUTE_SOAK=1 .venv/bin/python -m pytest --timeout 7200

bench: setup-java ## every benchmark, one JSON object each
	.venv/bin/secroute bench encode
	.venv/bin/secroute bench match --generate zipf --count 1000000 --bits 192
	.venv/bin/secroute bench match --generate uniform --count 1000000 --bits 192
	.venv/bin/secroute bench match --generate paper --count 1000000 --bits 2048
	.venv/bin/secroute bench match --generate zipf --count 1000000 --bits 192 --live
	.venv/bin/secroute bench exact --generate sigcomm --constraints 5000000 --interfaces 20
	.venv/bin/secroute bench exact --generate sigcomm --constraints 5000000 --interfaces 20 --one-filter-per-interface
	.venv/bin/secroute bench exact --generate icse --queries 100000 --density 0.077 --engine bdd --semantics strict
	.venv/bin/secroute bench router
	.venv/bin/secroute sim --topology powerlaw:200 --scheme all --receivers 2000 --messages 1000 --seed 7
	.venv/bin/secroute audit bench

proto: setup ## regenerate the protobuf code
	.venv/bin/python -m secroute.wire.generate

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
