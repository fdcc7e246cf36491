// The future events of a virtual world, in order of time and then of insertion.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace gv {

/// A priority queue that breaks ties by order of insertion, so that a run depends only on its
/// inputs. Items stay in place; only small keys move in the heap.
template <class Item>
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }

  /// Time of the first item. The queue must not be empty.
  Time next() const { return heap_.front().at; }

  /// `item` is an Item or one of its alternatives.
  template <class Kind>
  void push(Time at, Kind&& item) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(items_.size());
      items_.emplace_back(std::forward<Kind>(item));
    } else {
      slot = free_.back();
      free_.pop_back();
      items_[slot] = std::forward<Kind>(item);
    }
    heap_.push_back({at, pushed_++, slot});
    std::ranges::push_heap(heap_, later);
  }

  /// Removes and returns the first item. The queue must not be empty.
  Item pop() {
    std::ranges::pop_heap(heap_, later);
    const std::uint32_t slot = heap_.back().slot;
    heap_.pop_back();
    free_.push_back(slot);
    return std::move(items_[slot]);
  }

 private:
  struct Key {
    Time at;
    std::uint64_t number;
    std::uint32_t slot;
  };

  /// A function object, so that the heap's functions can inline the comparison. They would call a
  /// plain function through a pointer.
  static constexpr auto later = [](const Key& a, const Key& b) {
    return a.at != b.at ? a.at > b.at : a.number > b.number;
  };

  std::vector<Key> heap_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> free_;
  std::uint64_t pushed_ = 0;
};

}  // namespace gv
