// Keeps our reference and our copies of the neighbours' references.
#include "consensus/mixing/neighbour_memory.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "consensus/mixing/vector_steps.hpp"

namespace gv {
template <class Real>
void NeighbourMemory<Real>::begin_generation(std::span<const PeerId> order,
                                             std::span<const std::size_t> neighbours) {
  std::map<PeerId, Vector> copies;
  for (auto& [rank, neighbour] : neighbours_) copies[order_[rank]] = std::move(neighbour.copy);
  order_.assign(order.begin(), order.end());
  neighbours_.clear();
  for (const std::size_t rank : neighbours) {
    neighbours_[rank].copy = std::move(copies[order_.at(rank)]);
  }
}

template <class Real>
void NeighbourMemory<Real>::forget() {
  own_.clear();
  before_.clear();
  for (auto& [rank, neighbour] : neighbours_) neighbour = {};
}

template <class Real>
void NeighbourMemory<Real>::add(std::span<const Real> difference) {
  before_ = own_;
  gv::add<Real>(own_, difference);
}

template <class Real>
void NeighbourMemory<Real>::take_back() {
  if (!before_.empty()) own_ = std::exchange(before_, {});
}

template <class Real>
std::vector<typename NeighbourMemory<Real>::Head> NeighbourMemory<Real>::heads(bool opens) {
  fingerprint_ = fingerprint(std::span<const Real>(own_));
  if (opens) before_.clear();
  std::vector<Head> heads;
  for (auto& [rank, neighbour] : neighbours_) {
    const bool lacks = neighbour.copy.empty();
    MixForm form = neighbour.knows_us ? MixForm::coded : MixForm::whole;
    if (opens) form = lacks ? MixForm::whole : MixForm::hello;
    neighbour.is_heard = false;
    neighbour.is_sent = form == MixForm::whole;
    if (neighbour.is_sent) neighbour.knows_us = true;
    Head head{.to = {rank},
              .header = {.count = 1, .form = form, .lacks = lacks},
              .knowledge = {.sender = fingerprint_}};
    if (form == MixForm::hello) {
      head.knowledge.receiver = fingerprint(std::span<const Real>(neighbour.copy));
    } else {
      const auto same = std::ranges::find_if(heads, [&](const Head& other) {
        return other.header.form == form && other.header.lacks == head.header.lacks;
      });
      if (same != heads.end()) {
        same->to.push_back(rank);
        continue;
      }
    }
    heads.push_back(std::move(head));
  }
  return heads;
}

template <class Real>
bool NeighbourMemory<Real>::take(std::size_t from, const MixContent<Real>& content) {
  const auto found = neighbours_.find(from);
  if (found == neighbours_.end()) return false;
  Neighbour& neighbour = found->second;
  switch (content.header.form) {
    case MixForm::whole:
      neighbour.copy = content.values;
      break;
    case MixForm::coded:
      // We refuse differences until the whole reference arrives.
      if (neighbour.copy.empty()) return false;
      gv::add<Real>(neighbour.copy, content.values);
      break;
    case MixForm::hello:
      neighbour.knows_us = neighbour.is_sent || content.knowledge.receiver == fingerprint_;
      break;
  }
  neighbour.is_heard =
      !neighbour.copy.empty() &&
      fingerprint(std::span<const Real>(neighbour.copy)) == content.knowledge.sender;
  if (!neighbour.is_heard) neighbour.copy.clear();
  // `lacks` means that the neighbour has no copy of our reference. Ignore it if we are sending the
  // whole reference in this round.
  if (content.header.lacks != 0 && !neighbour.is_sent) neighbour.knows_us = false;
  return neighbour.is_heard || content.header.form == MixForm::hello;
}

template <class Real>
void NeighbourMemory<Real>::end_round() {
  before_.clear();
  for (auto& [rank, neighbour] : neighbours_) {
    if (!neighbour.is_heard) neighbour.copy.clear();
  }
}

template <class Real>
const typename NeighbourMemory<Real>::Vector* NeighbourMemory<Real>::shared(
    std::size_t neighbour) const {
  const auto found = neighbours_.find(neighbour);
  check(found != neighbours_.end(), "an edge leads to a neighbour");
  const bool counts = found->second.knows_us && !found->second.copy.empty();
  return counts ? &found->second.copy : nullptr;
}

template class NeighbourMemory<float>;
template class NeighbourMemory<double>;

}  // namespace gv
