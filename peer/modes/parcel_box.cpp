// Blocks become messages.
#include "peer/modes/parcel_box.hpp"

#include <algorithm>
#include <cstring>

namespace gv {
namespace {

/// Epochs that may begin next: ballots under way. What belongs to older ones goes.
constexpr std::size_t keys_kept = 3;

/// How far behind its sender's newest message one may come and still be told from one that comes
/// again: far more than a link reorders.
constexpr std::uint64_t rounds_behind = 64;

}  // namespace

void ParcelBox::enter(std::uint64_t key) {
  key_ = key;
  received_ = 0;
  whole_.clear();
  newest_.clear();
  asked_from_ = 0;
  std::map<Name, Coming> ours;
  if (const auto early = coming_.find(key); early != coming_.end()) ours = std::move(early->second);
  coming_.clear();
  for (auto& [name, coming] : ours) {
    received_ += coming.filled;
    if (coming.filled == coming.bytes->size()) {
      whole_[name] = std::move(coming.bytes);
      newest_[name.first] = std::max(newest_[name.first], name.second);
    } else {
      coming_[key][name] = std::move(coming);
    }
  }
}

bool ParcelBox::receive(PeerId from, const Block& block) {
  const Name name{from, block.id.number};
  const std::uint64_t key = block.id.session;
  const bool came = key == key_ && (whole_.contains(name) || is_forgotten(name));
  if (block.id.owner != from || came) return false;
  if (!coming_.contains(key) && coming_.size() >= keys_kept) {
    auto oldest = coming_.begin();
    if (oldest->first == key_) ++oldest;
    coming_.erase(oldest);
  }
  const std::size_t size = size_(block.id.number);
  Coming& coming = coming_[key][name];
  if (!coming.bytes) coming.bytes = std::make_shared<std::vector<std::byte>>(size);
  if (block.offset != coming.filled || block.bytes.size() > size - coming.filled) return false;
  std::memcpy(coming.bytes->data() + coming.filled, block.bytes.data(), block.bytes.size());
  coming.filled += block.bytes.size();
  if (key != key_) return true;
  received_ += block.bytes.size();
  if (coming.filled < size) return true;
  whole_[name] = std::move(coming.bytes);
  newest_[from] = std::max(newest_[from], name.second);
  coming_[key].erase(name);
  return true;
}

bool ParcelBox::has_since(PeerId from, std::uint64_t round) const {
  const auto parcel = whole_.lower_bound({from, round});
  return parcel != whole_.end() && parcel->first.first == from;
}

std::vector<ParcelBox::Parcel> ParcelBox::take(std::uint64_t last) {
  std::vector<Parcel> parcels;
  for (auto& [name, bytes] : whole_) {
    if (!bytes || name.second > last) continue;
    parcels.push_back({name.first, name.second, std::exchange(bytes, nullptr)});
  }
  return parcels;
}

bool ParcelBox::is_forgotten(const Name& name) const {
  const auto newest = newest_.find(name.first);
  return name.second < asked_from_ && newest != newest_.end() &&
         name.second + rounds_behind < newest->second;
}

void ParcelBox::forget_before(std::uint64_t round) {
  asked_from_ = round;
  std::erase_if(whole_,
                [&](const auto& parcel) { return !parcel.second && is_forgotten(parcel.first); });
}

}  // namespace gv
