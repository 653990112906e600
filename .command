cd '.'
scripts/check_version
