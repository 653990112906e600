-- release_notes.lua VERSION <CHANGELOG.md: prints the changes of a version, or, if the changelog has no section for it
-- yet, those of the section "Unreleased". It is an error if there are none.

local version = arg[1]
if not version then
  io.stderr:write "usage: lua5.4 scripts/release_notes.lua VERSION <CHANGELOG.md\n"
  os.exit(2)
end

local sections, name = {}, nil
for line in io.lines() do
  name = line:match "^## %[([^%]]+)%]" or name
  if name and not line:find "^## " then sections[name] = (sections[name] or "") .. line .. "\n" end
end

local text = sections[version] or sections.Unreleased
text = text and text:match "^%s*(.-)%s*$" or ""
if text == "" then
  io.stderr:write(("release_notes.lua: the changelog has no changes of version %s\n"):format(version))
  os.exit(1)
end
print(("# runnel %s\n\n%s"):format(version, text))
