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

/// What a peer writes of itself, signed in the domain "grapevine rendezvous 1".
struct Announcement {
  PeerId id{};
  std::string address;            ///< Where it can be dialled.
  std::uint64_t session = 0;      ///< Random number of its process.
  std::uint64_t incarnation = 0;  ///< One more than that of the rank's process before.

  friend bool operator==(const Announcement&, const Announcement&) = default;
};

/// One line: the fields and the signature.
std::string announcement_text(const Announcement& announcement, const Signer& signer);

/// Reads what announcement_text() wrote. Returns nullopt unless it is by `id` and has an address
/// that can be dialled.
std::optional<Announcement> announcement_in(std::string_view text, PeerId id, const Signer& signer);

/// Creates the folder if it is missing. Returns why it cannot be used: it must be ours alone,
/// because other users that write there could keep peers from meeting.
Problems open_rendezvous(const std::filesystem::path& folder);

/// The file rank-R of a folder holds the announcement of rank R. Files of others are only read.
/// Stale ones and those of other cohorts do no harm.
class Rendezvous {
 public:
  struct Options {
    std::filesystem::path folder;
    std::size_t rank = 0;
    std::vector<PeerId> peers;  ///< Of all ranks, in their order.
    std::string address;        ///< Ours; empty: we cannot be dialled, and write nothing.
    std::uint64_t session = 0;
  };

  /// `signer` must outlive this object.
  Rendezvous(Options options, const Signer& signer)
      : options_(std::move(options)), signer_(signer), next_(options_.rank + 1) {}

  struct Found {
    PeerId peer{};
    std::string address;
  };
  /// What a look has found.
  struct Look {
    std::vector<Found> others;
    std::string taken_at;  ///< Not empty: a newer process with our rank has this address.
  };

  /// Writes our announcement if it is not there, and reads the next few of the others', passing
  /// over those for which `is_known` is true.
  Look look(const std::function<bool(PeerId)>& is_known);

  /// Removes our announcement, if it is still ours.
  void withdraw() const;

 private:
  std::filesystem::path file_of(std::size_t rank) const;
  std::optional<Announcement> read(std::size_t rank) const;
  std::string announce();

  Options options_;
  const Signer& signer_;
  std::uint64_t incarnation_ = 0;  ///< 0: not chosen yet.
  std::size_t next_;               ///< The rank to read next.
};

}  // namespace gv
