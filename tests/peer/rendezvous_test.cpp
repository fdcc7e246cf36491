// The folder in which the ranks of a cohort find each other's addresses, and what it may contain.
#include "peer/host/rendezvous.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "net/cohort.hpp"
#include "net/key_signer.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

namespace fs = std::filesystem;

/// A cohort of three with a folder for its rendezvous.
struct Meeting {
  TemporaryFolder root;
  CohortSecret secret = generate_cohort_secret();
  std::vector<AuthorizedPeer> peers = peers_of_cohort(secret, 3);

  Meeting() { REQUIRE(open_rendezvous(folder()).empty()); }

  fs::path folder() const { return root.path() / "peers"; }
  fs::path file(std::size_t rank) const { return folder() / ("rank-" + std::to_string(rank)); }
  PeerId id(std::size_t rank) const { return peer_id(peers[rank].key); }

  KeySigner signer(std::size_t rank) const { return {key_pair_of_rank(secret, rank), peers}; }

  Rendezvous at(std::size_t rank, std::uint64_t session, const Signer& signer,
                std::uint64_t settings = 1) const {
    return {{.folder = folder(),
             .rank = rank,
             .peers = {id(0), id(1), id(2)},
             .address = "host-" + std::to_string(session) + ":7000",
             .session = session,
             .settings = settings},
            signer};
  }

  std::string text(std::size_t rank) const {
    std::ifstream in(file(rank), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(std::size_t rank, const std::string& text) const {
    std::ofstream(file(rank), std::ios::binary) << text;
  }
};

bool knows_no_peer(PeerId) { return false; }

}  // namespace

TEST_CASE("ranks find the addresses of those that have come and pass over those they know",
          "[unit]") {
  const Meeting meeting;
  const KeySigner zero = meeting.signer(0), one = meeting.signer(1), two = meeting.signer(2);
  Rendezvous first = meeting.at(0, 10, zero), second = meeting.at(1, 11, one);
  CHECK(first.look(knows_no_peer).others.empty());
  const Rendezvous::Look seen = second.look(knows_no_peer);
  REQUIRE(seen.others.size() == 1);
  CHECK(seen.others[0].peer == meeting.id(0));
  CHECK(seen.others[0].address == "host-10:7000");
  CHECK(seen.taken_at.empty());
  CHECK(meeting.at(2, 12, two).look(knows_no_peer).others.size() == 2);
  CHECK(first.look([&](PeerId peer) { return peer == meeting.id(1); }).others.size() == 1);

  second.withdraw();
  CHECK_FALSE(fs::exists(meeting.file(1)));
  CHECK(fs::exists(meeting.file(0)));
}

TEST_CASE("of two processes with one rank the newer one keeps it and the other learns of it",
          "[unit]") {
  const Meeting meeting;
  const KeySigner zero = meeting.signer(0);
  Rendezvous older = meeting.at(0, 99, zero);
  CHECK(older.look(knows_no_peer).taken_at.empty());
  Rendezvous newer = meeting.at(0, 5, zero);
  CHECK(newer.look(knows_no_peer).taken_at.empty());
  CHECK(older.look(knows_no_peer).taken_at == "host-5:7000");
  CHECK(newer.look(knows_no_peer).taken_at.empty());
  // The older process leaves the announcement of the newer one in place.
  older.withdraw();
  CHECK(fs::exists(meeting.file(0)));
}

TEST_CASE("a process with other settings does not take the rank of one that trains", "[unit]") {
  const Meeting meeting;
  const KeySigner zero = meeting.signer(0), one = meeting.signer(1);
  Rendezvous trains = meeting.at(0, 99, zero);
  CHECK(trains.look(knows_no_peer).taken_at.empty());
  Rendezvous misled = meeting.at(0, 5, zero, 2);
  CHECK(misled.look(knows_no_peer).taken_at.empty());
  // The other ranks can dial both processes, and tell the one with different settings why they
  // refuse it.
  Rendezvous other = meeting.at(1, 11, one);
  CHECK(other.look(knows_no_peer).others.at(0).address == "host-5:7000");
  CHECK(trains.look(knows_no_peer).taken_at.empty());
  CHECK(other.look(knows_no_peer).others.at(0).address == "host-99:7000");
  misled.withdraw();
  CHECK(fs::exists(meeting.file(0)));
  // A restarted process with the same settings takes over, even if the other one wrote last.
  CHECK(misled.look(knows_no_peer).taken_at.empty());
  Rendezvous restarted = meeting.at(0, 6, zero);
  CHECK(restarted.look(knows_no_peer).taken_at.empty());
  CHECK(trains.look(knows_no_peer).taken_at == "host-6:7000");
}

TEST_CASE("an earlier announcement that comes back does not end the process", "[unit]") {
  const Meeting meeting;
  const KeySigner zero = meeting.signer(0);
  CHECK(meeting.at(0, 99, zero).look(knows_no_peer).taken_at.empty());
  const std::string stale = meeting.text(0);
  Rendezvous newer = meeting.at(0, 5, zero);
  CHECK(newer.look(knows_no_peer).taken_at.empty());
  meeting.write(0, stale);
  CHECK(newer.look(knows_no_peer).taken_at.empty());
  CHECK(meeting.text(0).starts_with("host-5:7000 "));
}

TEST_CASE("nothing is believed that the rank itself has not signed", "[unit]") {
  const Meeting meeting;
  const KeySigner zero = meeting.signer(0), one = meeting.signer(1);
  Rendezvous reader = meeting.at(1, 11, one);
  const Announcement announcement{
      .id = meeting.id(0), .address = "host:7000", .session = 1, .incarnation = 1};
  const std::string good = announcement_text(announcement, zero);
  meeting.write(0, good);
  REQUIRE(reader.look(knows_no_peer).others.size() == 1);

  const KeySigner stranger(key_pair_of_rank(generate_cohort_secret(), 0), {});
  std::string moved = good;
  moved.replace(0, 4, "evil");
  Announcement nowhere = announcement;
  nowhere.address = "host:0";
  for (const std::string& text :
       {std::string(), moved, good.substr(0, good.size() - 1), good + good, good + "x",
        announcement_text(announcement, stranger), announcement_text(announcement, one),
        announcement_text(nowhere, zero), std::string(100000, 'a'), " " + good}) {
    INFO(text.substr(0, 200));
    meeting.write(0, text);
    CHECK(reader.look(knows_no_peer).others.empty());
  }
  // A rank replaces a stranger's line that has overwritten its own.
  meeting.write(1, announcement_text(announcement, stranger));
  CHECK(reader.look(knows_no_peer).taken_at.empty());
  CHECK(meeting.text(1).starts_with("host-11:7000 "));
}

TEST_CASE("links and pipes and folders in place of an announcement are passed over", "[unit]") {
  const Meeting meeting;
  const KeySigner zero = meeting.signer(0), one = meeting.signer(1);
  Rendezvous first = meeting.at(0, 10, zero), reader = meeting.at(1, 11, one);
  first.look(knows_no_peer);
  fs::rename(meeting.file(0), meeting.root.path() / "elsewhere");
  fs::create_symlink(meeting.root.path() / "elsewhere", meeting.file(0));
  REQUIRE(::mkfifo(meeting.file(2).c_str(), 0600) == 0);
  CHECK(reader.look(knows_no_peer).others.empty());
  fs::remove(meeting.file(2));
  fs::create_directory(meeting.file(2));
  CHECK(reader.look(knows_no_peer).others.empty());
}

TEST_CASE("a look reads a bounded number of files and the next one goes on from there", "[unit]") {
  const Meeting meeting;
  const std::vector<AuthorizedPeer> many = peers_of_cohort(meeting.secret, 100);
  std::vector<PeerId> ids;
  for (const AuthorizedPeer& peer : many) ids.push_back(peer_id(peer.key));
  for (std::size_t rank = 0; rank < many.size(); ++rank) {
    const KeySigner signer(key_pair_of_rank(meeting.secret, rank), many);
    meeting.write(rank, announcement_text({.id = ids[rank],
                                           .address = "host:" + std::to_string(rank + 1),
                                           .session = rank,
                                           .incarnation = 1},
                                          signer));
  }
  const KeySigner own(key_pair_of_rank(meeting.secret, 40), many);
  Rendezvous reader({.folder = meeting.folder(), .rank = 40, .peers = ids}, own);
  std::set<PeerId> found;
  for (int looks = 0; looks < 4; ++looks) {
    const Rendezvous::Look look = reader.look(knows_no_peer);
    CHECK(look.others.size() <= 32);
    for (const Rendezvous::Found& other : look.others) found.insert(other.peer);
  }
  CHECK(found.size() == 99);
}

TEST_CASE("a folder in which others may write is refused with its remedy", "[unit]") {
  const Meeting meeting;
  ::chmod(meeting.folder().c_str(), 0770);
  const Problems open = open_rendezvous(meeting.folder());
  REQUIRE(open.size() == 1);
  CHECK(open[0].remedy == "chmod 700 " + meeting.folder().string());
  const Problems missing = open_rendezvous(meeting.root.path() / "no" / "folder");
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].remedy.find("--rendezvous") != std::string::npos);
  std::ofstream(meeting.root.path() / "file") << "x";
  CHECK(open_rendezvous(meeting.root.path() / "file").size() == 1);
}

}  // namespace gv
