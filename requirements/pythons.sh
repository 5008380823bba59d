#!/bin/sh
# requirements/pythons.sh 'PYTHON ...' ARGUMENTS: plays pytest with these arguments under each of these Pythons that is there and
# is 3.11 or newer, in environments of their own (.venv-3.12.1 and so on). UV names uv, LOCK the constraints. For `make pythons`.
#
# Fails when it fails under one of them, or when there is none; the rest are played all the same.
pythons=$1
shift
played= failed=
for python in $pythons; do
	version=$("$python" -c 'import sys; print(".".join(map(str, sys.version_info[:3])) * (sys.version_info >= (3, 11)))' 2>/dev/null)
	case " $played " in *" $version "*) continue ;; esac
	[ -n "$version" ] || continue
	played="$played $version"
	venv=.venv-$version
	echo "== Python $version ($python)"
	if {
		[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
	} && "$UV" pip install -q --compile-bytecode --python "$venv/bin/python" -c "$LOCK" -e '.[kafka,nats,peers,rabbitmq,pulsar,kinesis,frameworks,dev]'; then
		"$venv/bin/python" -m pytest "$@" || failed="$failed $version"
	else
		failed="$failed $version"
	fi
done
if [ -z "$played" ]; then
	echo "no Python 3.11 or newer among: $pythons" >&2
	exit 1
fi
echo "played:$played; failed:${failed:- none}"
[ -z "$failed" ]
