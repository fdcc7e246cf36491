// Stores the announcements of ranks in files. Replaces files by renaming, and limits how much it
// reads.
#include "peer/host/rendezvous.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <tuple>

#include "base/canonical.hpp"
#include "net/cohort.hpp"
#include "net/identity.hpp"
#include "net/small_file.hpp"
#include "peer/host/replace_file.hpp"

namespace gv {
namespace {

constexpr std::string_view domain = "grapevine rendezvous 2";
constexpr std::size_t entry_bytes_max = 512;  ///< Lines that we write have at most about 450 bytes.
constexpr std::size_t read_at_once = 32;      ///< Most files of other peers that one look reads.
constexpr mode_t folder_mode = 0700;
constexpr mode_t others_may_write = 022;

/// Removes the next word from the text and returns it; empty if there is none.
std::string_view next_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  const std::string_view word = next_word(text);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

bool take_signature(std::string_view& text, Signature& signature) {
  const std::string_view word = next_word(text);
  std::size_t length = 0;
  return sodium_hex2bin(signature.data(), signature.size(), word.data(), word.size(), nullptr,
                        &length, nullptr) == 0 &&
         length == signature.size();
}

/// The order in which processes with the same rank started. The one that started last keeps the
/// rank.
auto seniority(const Announcement& one) { return std::tie(one.incarnation, one.session); }

}  // namespace

Problems open_rendezvous(const std::filesystem::path& folder) {
  const std::string place = folder.string();
  const std::string remedy =
      "name a folder of your own with --rendezvous, on a file system that all machines share";
  if (::mkdir(place.c_str(), folder_mode) != 0 && errno != EEXIST) {
    return {{place, "the folder cannot be created: " + error_text(errno), remedy}};
  }
  struct stat status {};
  if (::stat(place.c_str(), &status) != 0) {
    return {{place, "the folder cannot be examined: " + error_text(errno), remedy}};
  }
  if (!S_ISDIR(status.st_mode)) return {{place, "is not a folder", remedy}};
  if (status.st_uid != ::geteuid()) return {{place, "the folder belongs to another user", remedy}};
  if ((status.st_mode & others_may_write) != 0) {
    return {{place, "other users may write to the folder", "chmod 700 " + place}};
  }
  if (::access(place.c_str(), W_OK) != 0) {
    return {{place, "the folder cannot be written: " + error_text(errno), remedy}};
  }
  return {};
}

std::string announcement_text(const Announcement& announcement, const Signer& signer) {
  const Signature signature = signer.sign(canonical_bytes(domain, announcement));
  std::string hex(2 * signature.size() + 1, '\0');
  sodium_bin2hex(hex.data(), hex.size(), signature.data(), signature.size());
  hex.pop_back();  // Removes the zero byte at the end.
  return fmt::format("{} {} {} {} {}\n", announcement.address, announcement.session,
                     announcement.incarnation, announcement.settings, hex);
}

std::optional<Announcement> announcement_in(std::string_view text, PeerId id,
                                            const Signer& signer) {
  if (!text.ends_with('\n')) return std::nullopt;
  text.remove_suffix(1);
  Announcement announcement{.id = id, .address = std::string(next_word(text))};
  Signature signature{};
  const bool is_whole =
      take_number(text, announcement.session) && take_number(text, announcement.incarnation) &&
      take_number(text, announcement.settings) && take_signature(text, signature) && text.empty();
  if (!is_whole || !is_address(announcement.address)) return std::nullopt;
  if (!signer.verify(id, canonical_bytes(domain, announcement), signature)) return std::nullopt;
  return announcement;
}

std::filesystem::path Rendezvous::file_of(std::size_t rank) const {
  return options_.folder / name_of_rank(rank);
}

std::optional<Announcement> Rendezvous::read(std::size_t rank) const {
  // O_NONBLOCK keeps open() from hanging on a FIFO.
  const File in(file_of(rank), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat status {};
  if (!in.is_open() || ::fstat(in.fd(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  std::string text(entry_bytes_max, '\0');
  if (!in.read(text)) return std::nullopt;
  return announcement_in(text, options_.peers[rank], signer_);
}

/// Writes our announcement if it is missing or was replaced by another. Returns the address of a
/// newer process with our rank and settings; empty if there is none.
std::string Rendezvous::announce() {
  if (options_.address.empty()) return {};
  const std::optional<Announcement> there = read(options_.rank);
  if (incarnation_ == 0) incarnation_ = (there ? there->incarnation : 0) + 1;
  const Announcement own{.id = options_.peers[options_.rank],
                         .address = options_.address,
                         .session = options_.session,
                         .incarnation = incarnation_,
                         .settings = options_.settings};
  if (there == own) return {};
  const bool is_alike = there && there->settings == own.settings;
  if (is_alike && seniority(*there) > seniority(own)) return there->address;
  replace_file(file_of(options_.rank), announcement_text(own, signer_));
  return {};
}

Rendezvous::Look Rendezvous::look(const std::function<bool(PeerId)>& is_known) {
  Look look{.others = {}, .taken_at = announce()};
  std::size_t read_files = 0;
  const std::size_t ranks = options_.peers.size();
  for (std::size_t passed = 0; passed < ranks && read_files < read_at_once; ++passed, ++next_) {
    const std::size_t rank = next_ % ranks;
    if (rank == options_.rank || is_known(options_.peers[rank])) continue;
    ++read_files;
    if (auto found = read(rank)) {
      look.others.push_back({.peer = found->id, .address = std::move(found->address)});
    }
  }
  next_ %= ranks;
  return look;
}

void Rendezvous::withdraw() const {
  const std::optional<Announcement> there = read(options_.rank);
  if (!there || there->session != options_.session) return;
  std::error_code ignored;
  std::filesystem::remove(file_of(options_.rank), ignored);
}

}  // namespace gv
