#!/bin/sh
# Nothing but the C API can be seen from outside: a second HDF5 or simdjson in the same process never meets ours.
# usage: exported_symbols_test.sh NM LIBRARY
others=$("$1" --dynamic --defined-only "$2" | awk '{print $NF}' | grep -v '^Vn[A-Z]')
[ -z "$others" ] || { echo "exported, but not part of the C API:"; echo "$others"; exit 1; }
"$1" --dynamic --defined-only "$2" | grep -q ' VnCompareRecordings$' || { echo "VnCompareRecordings is not exported"; exit 1; }
