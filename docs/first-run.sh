#!/bin/sh
# The main job in a directory of its own: npm install with npm's registry as the only host.
set -eu
registry=$(npm config get registry)
host=${registry#*://}
directory=$(mktemp -d)
cd "$directory"
cat > settings.json <<EOF
{
  "network": { "allowedDomains": ["${host%%/*}"] },
  "filesystem": { "allowWrite": ["$directory"] }
}
EOF
srt --settings settings.json env npm_config_cache="$directory/cache" npm install express
npm ls
echo "installed in $directory"
