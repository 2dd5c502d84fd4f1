#!/usr/bin/env bash
# try_wheel.sh OPC: what an installed package can do without the repository.
set -euo pipefail
opc=$(realpath "$1")
cd "$(mktemp -d)"
"$opc" demo --quick
"$opc" up scripted episodes:=2 store:=recorded
episodes=$(find recorded/episodes -name '*.json' | wc -l)
echo "opc up scripted recorded $episodes episodes"
[ "$episodes" = 2 ]
