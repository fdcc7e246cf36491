// The targets `member_cache`, `settings_revision`, `rendezvous` and `ledger`: files in peers'
// folders, and peers' reports on the common work.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/check.hpp"
#include "net/identity.hpp"
#include "net/roster.hpp"
#include "peer/config/switched_mixing.hpp"
#include "peer/host/ledger_view.hpp"
#include "peer/host/member_cache.hpp"
#include "peer/host/rendezvous.hpp"
#include "peer/host/settings_revision_file.hpp"
#include "tests/fuzz/scratch.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/signers.hpp"

namespace gv::fuzz {
namespace {

PublicKey key_of(std::uint8_t number) { return {number, 2, 3}; }

std::vector<AuthorizedPeer> three_peers() {
  return {{.name = "anna", .key = key_of(1), .address = {}},
          {.name = "b-2", .key = key_of(2), .address = "host:9000"},
          {.name = "c", .key = key_of(3), .address = "[::1]:1"}};
}

std::filesystem::path made_folder() {
  std::string pattern = "/tmp/grapevine-fuzz-XXXXXX";
  check(::mkdtemp(pattern.data()) != nullptr, "there is room for a folder");
  return pattern;
}

// ---- Members that a peer has known ----

PeerId roster_owner() { return peer_id(key_of(1)); }

void feed_member_cache(std::span<const std::byte> bytes) {
  static MemoryFile file;
  static const Roster roster(three_peers()[0], three_peers());
  file.write(bytes);
  for (const Member& member : MemberCache(file.path()).read(roster, signer_of(roster_owner()))) {
    check(is_address(member.address), "only addresses are dialled");
    check(is_signed(member, signer_of(roster_owner())), "only signed statements are believed");
  }
}

std::vector<Bytes> member_cache_seeds() {
  std::map<PeerId, Member> members;
  for (const AuthorizedPeer& peer : three_peers()) {
    if (peer.address.empty()) continue;
    Member member{.id = peer_id(peer.key), .name = peer.name, .address = peer.address};
    restate(member, signer_of(member.id));
    members[member.id] = member;
  }
  const std::filesystem::path folder = made_folder();
  MemberCache(folder / "members").write(members);
  std::ifstream in(folder / "members", std::ios::binary);
  const std::string written{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove_all(folder);
  return {bytes_of(written), bytes_of("b-2@host:9000\nc@[::1]:1 AAAA\n"),
          bytes_of("c@h:70000\n@\n")};
}

// ---- Settings that a swarm has switched to ----

void feed_settings_revision(std::span<const std::byte> bytes) {
  static const std::filesystem::path folder = made_folder();
  static const std::filesystem::path file = folder / "settings_revision";
  std::ofstream(file, std::ios::binary) << text_of(bytes) << std::flush;
  const std::optional<SettingsRevision> revision = read_revision(folder);
  std::filesystem::remove(file);
  if (!revision) return;
  check(revision->problem().empty(), "a revision that is read may be sent");
  static const Config config = [] {
    Config made = default_config();
    made.run.mode = ModeKind::mixing;
    return made;
  }();
  (void)switched_mixing(config, revision->settings);
}

std::vector<Bytes> settings_revision_seeds() {
  return {bytes_of("1\nrun.algorithm = \"choco\"\n"),
          bytes_of("18446744073709551615\nmixing.gamma = 0.2\nmixing.period_steps = 3\n"),
          bytes_of("7\n")};
}

// ---- Addresses of the ranks of a cohort ----

PeerId announcer() { return peer_id(key_of(2)); }

void feed_rendezvous(std::span<const std::byte> bytes) {
  const auto read = announcement_in(text_of(bytes), announcer(), signer_of(announcer()));
  if (!read) return;
  check(is_address(read->address), "only addresses are dialled");
  check(read->id == announcer(), "an announcement is by the rank whose file it is in");
}

std::vector<Bytes> rendezvous_seeds() {
  const std::string line = announcement_text(
      {.id = announcer(), .address = "host:7000", .session = 17, .incarnation = 2},
      signer_of(announcer()));
  return {bytes_of(line), bytes_of(line.substr(0, line.size() - 5) + "\n"),
          bytes_of("h:0 1 1 00\n")};
}

// ---- A peer's reports on the common work ----

void feed_ledger(std::span<const std::byte> bytes) {
  const PeerDocument document{.text = std::string(text_of(bytes))};
  if (!ledger_problems(document).empty()) return;
  for (const char c : ledger_table(document)) {
    check(c == '\n' || c < 0 || c >= ' ', "what others say is printable");
  }
  const PeerDocument part{.text = ledger_part(document.text, bytes.size() + 200)};
  check(ledger_problems(part).empty(), "a part of a sound ledger is one");
  (void)ledger_json(part);
}

std::vector<Bytes> ledger_seeds() {
  return {
      bytes_of(R"({"self":{"name":"a","id":"1"},"phase":"training","left_out":2,)"
               R"("work":{"budget":9,"counted":5,"text":"work"},"ledger":{"chunks":4,"text":"l"},)"
               R"("members":[{"name":"a","id":"1","self":true,"state":"alive","phase":"done",)"
               R"("work":{"samples":3,"share":0.5,"chunks_done":1,"leases":0,"data":7}}]})"),
      bytes_of(R"({"work":{"counted":null},"members":[{"work":{"factor":1e3}}]})"),
      bytes_of("[[[[[[[[[[[[[[[[[[[[[[]]]]")};
}

}  // namespace

Target ledger_target() { return {.name = "ledger", .feed = feed_ledger, .seeds = ledger_seeds}; }
Target rendezvous_target() {
  return {.name = "rendezvous", .feed = feed_rendezvous, .seeds = rendezvous_seeds};
}
Target member_cache_target() {
  return {.name = "member_cache", .feed = feed_member_cache, .seeds = member_cache_seeds};
}
Target settings_revision_target() {
  return {.name = "settings_revision",
          .feed = feed_settings_revision,
          .seeds = settings_revision_seeds,
          .bytes_max = 1200};
}

}  // namespace gv::fuzz
