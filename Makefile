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

proto: setup ## regenerate the protobuf code
	.venv/bin/python -m secroute.wire.generate

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
