# For scripts that fetch Debian's packages without installing them (get-kernels, get-lttng): apt's configuration and lists stay as
# they are, and what apt needs here it has in the folder $apt, with the mirror, the keys and the proxy of the system's own
# sources. It is sourced.

is_ready=

fail() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# The keys that the system's entry FILE:NUMBER names: a line of a .list, a paragraph of a .sources.
keys_of_entry() {
    local file=${1%:*} number=${1##*:}
    case $file in
        *.sources) awk -v RS= -v number="$number" 'NR == number' "$file" | sed -n 's/^Signed-By:[ \t]*//p' ;;
        *) sed -n "${number}p" "$file" | grep -o 'signed-by=[^] ]*' | sed 's/^signed-by=//' ;;
    esac
}

# prepare_apt SUITE...: apt with nothing of the system's but its proxy, credentials and keys; once.
prepare_apt() {
    [ -z "$is_ready" ] || return 0
    command -v apt-get >/dev/null || fail "this is not a Debian system: there is no apt-get"
    local entry mirror keys
    entry=$(apt-get indextargets --no-release-info --format '$(REPO_URI) $(SOURCESENTRY)' \
        'Created-By: Packages' 'Release: bookworm' | head -n 1)
    [ -n "$entry" ] || fail "apt has no source for bookworm; it needs a line such as" \
        "\"deb http://deb.debian.org/debian bookworm main\" in /etc/apt/sources.list"
    mirror=${entry% *}
    keys=$(keys_of_entry "${entry##* }" || true)
    [ "${keys#/}" != "$keys" ] || keys=/usr/share/keyrings/debian-archive-keyring.gpg
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    printf '%s\n' "$@" |
        sed "s|.*|deb [arch=amd64$([ ! -e "$keys" ] || echo " signed-by=$keys")] $mirror & main|" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONFIGURATION
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
APT::Architecture "amd64";
APT::Sandbox::User "root"; // nobody else may be able to enter the build folder
Acquire::Languages "none";
Acquire::Retries "3";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
CONFIGURATION
    quietly "could not read the package lists of $mirror" apt-get -c "$apt/apt.conf" -q --error-on=any update
    is_ready=yes
}

# quietly MESSAGE COMMAND...: what the command says is shown only if it fails.
quietly() {
    local message=$1
    shift
    "$@" </dev/null >"$apt/log" 2>&1 || { tail -n 10 "$apt/log" >&2; fail "$message: $*"; }
}
