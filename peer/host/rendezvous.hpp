// The folder on a shared file system in which the peers of a cohort find each other's addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/problems.hpp"
#include "consensus/message/signer.hpp"

namespace gv {

/// A peer's announcement of itself, signed in the domain "grapevine rendezvous 2".
struct Announcement {
  PeerId id{};
  std::string address;            ///< The address at which the peer can be dialled.
  std::uint64_t session = 0;      ///< Random number of the peer's process.
  std::uint64_t incarnation = 0;  ///< One more than that of the rank's previous process.
  std::uint64_t settings = 0;     ///< Fingerprint of the settings that all peers must share.

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

/// Returns one line with the announcement's fields and signature.
std::string announcement_text(const Announcement& announcement, const Signer& signer);

/// Reads the output of announcement_text(). Returns nullopt unless the announcement is signed by
/// `id` and has an address that can be dialled.
std::optional<Announcement> announcement_in(std::string_view text, PeerId id, const Signer& signer);

/// Creates the folder if it is missing. Returns the reasons why it cannot be used. Only the
/// folder's owner may have write access, because other users could otherwise keep peers from
/// meeting.
Problems open_rendezvous(const std::filesystem::path& folder);

/// Announces our rank in a folder, and reads the announcements of others. The file rank-R holds the
/// announcement of rank R; the files of other ranks are only read. Stale files and files of other
/// cohorts do no harm.
class Rendezvous {
 public:
  struct Options {
    std::filesystem::path folder;
    std::size_t rank = 0;
    std::vector<PeerId> peers;  ///< The ids of all ranks, in order.
    std::string address;        ///< Our address. If empty, we cannot be dialled and write no file.
    std::uint64_t session = 0;
    std::uint64_t settings = 0;  ///< Fingerprint of the settings that all peers must share.
  };

  /// `signer` must outlive this object.
  Rendezvous(Options options, const Signer& signer)
      : options_(std::move(options)), signer_(signer), next_(options_.rank + 1) {}

  struct Found {
    PeerId peer{};
    std::string address;
  };
  /// The result of a look into the folder.
  struct Look {
    std::vector<Found> others;
    /// Address of a newer process with our rank and settings; empty if none. The others would
    /// refuse a process with other settings, so it cannot take our rank.
    std::string taken_at;
  };

  /// Writes our announcement if it is missing. Then reads the announcements of the next few ranks
  /// whose peers are not known yet, according to `is_known`.
  Look look(const std::function<bool(PeerId)>& is_known);

  /// Removes our announcement, unless another process has replaced it.
  void withdraw() const;

 private:
  std::filesystem::path file_of(std::size_t rank) const;
  std::optional<Announcement> read(std::size_t rank) const;
  std::string announce();

  Options options_;
  const Signer& signer_;
  std::uint64_t incarnation_ = 0;  ///< 0 if it has not been chosen yet.
  std::size_t next_;               ///< The rank to read next.
};

}  // namespace gv
