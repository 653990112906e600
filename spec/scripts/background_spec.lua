-- spec/support/background.sh, which keeps the programs that run beside a spec.

local patience = require "spec.support.patience"
local process = require "spec.support.process"

describe("background.sh", function()
  it("kills also a program whose process id is not written yet", function()
    local dir <close> = process.directory()
    dir:write("mv", '#!/bin/sh\nsleep 0.3\nexec /bin/mv "$@"\n') -- so it is written late
    assert(os.execute(("chmod +x '%s/mv'; mkdir '%s/set'; echo 'exec sleep 3600.25' >'%s/set/1.sh'")
      :format(dir.path, dir.path, dir.path)))
    -- timeout says 124 if the program runs on.
    local result = process.run(dir.path, ([[
      here=$PWD; cd "$OLDPWD"; echo 1 | PATH="$here:$PATH" timeout %d sh spec/support/background.sh "$here/set"]])
      :format(patience.seconds(20)))
    assert.same({ out = "", err = "", status = 0 }, result)
    assert.is_nil(io.open(dir.path .. "/set/1.sh"))
  end)
end)
