#!/bin/sh
# Nothing but the C API can be seen from outside: a second HDF5 or simdjson in the same process never meets ours. The
# library knows nothing of Python; the extension module holds nothing of the recorder but its calls.
# usage: exported_symbols_test.sh NM LIBRARY EXTENSION
exported() { "$nm" --dynamic --defined-only "$1" | awk '{print $NF}'; }
fail() { echo "$1"; echo "$2"; exit 1; }
nm=$1

others=$(exported "$2" | grep -v '^Vn[A-Z]')
[ -z "$others" ] || fail "exported, but not part of the C API:" "$others"
exported "$2" | grep -qx 'VnCompareRecordings' || fail "VnCompareRecordings is not exported"
python=$("$nm" --dynamic --undefined-only "$2" | grep -E ' _?Py')
[ -z "$python" ] || fail "the library needs Python:" "$python"

[ "$(exported "$3")" = PyInit__front ] || fail "the extension exports more than PyInit__front:" "$(exported "$3")"
copies=$("$nm" --demangle "$3" | grep 'vernier::Recorder')
[ -z "$copies" ] || fail "the extension has a recorder of its own:" "$copies"
