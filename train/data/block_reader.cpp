// Keeps the blocks that were used most recently.
#include "train/data/block_reader.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/check.hpp"

namespace gv {
namespace {

/// Reads block `number` of `all`. Reports every failure as a problem in the result, because work on
/// another thread must not throw.
LoadedDataSet load(const DataSet& all, std::size_t number) {
  try {
    LoadedDataSet loaded = all.blocks->read(number);
    if (loaded.data) loaded.data->normalise(all.offset, all.scale);
    return loaded;
  } catch (const std::exception& error) {
    return {.data = nullptr,
            .problems = {{"data",
                          "block " + std::to_string(number) + " cannot be read: " + error.what(),
                          "free some memory"}}};
  }
}

}  // namespace

BlockReader::BlockReader(std::shared_ptr<const DataSet> data, RunAside aside)
    : data_(std::move(data)), aside_(std::move(aside)) {
  check(data_->blocks != nullptr, "blocks are of data in files");
}

BlockReader::Held* BlockReader::find(std::size_t number) {
  for (Held& held : held_) {
    if (held.number == number) return &held;
  }
  return nullptr;
}

/// Adds a block. If there is no room, drops the least recently used block first.
BlockReader::Held& BlockReader::add(std::size_t number) {
  if (held_.size() == held_max) {
    const auto oldest = std::ranges::min_element(held_, {}, &Held::used);
    // Wait for a block that is still being read. Otherwise, its memory would exceed the limit.
    if (oldest->wait) oldest->wait();
    held_.erase(oldest);
  }
  held_.push_back({.number = number,
                   .used = ++clock_,
                   .loaded = std::make_shared<LoadedDataSet>(),
                   .wait = nullptr});
  return held_.back();
}

const DataSet& BlockReader::block(std::size_t number) {
  Held* held = find(number);
  if (held == nullptr) {
    held = &add(number);
    *held->loaded = load(*data_, number);
  } else if (held->wait) {
    held->wait();
    held->wait = nullptr;
  }
  held->used = ++clock_;
  if (held->loaded->data) return *held->loaded->data;
  const std::string problem = to_string(held->loaded->problems.front());
  held_.erase(held_.begin() + (held - held_.data()));
  throw DataError(problem);
}

void BlockReader::expect(std::size_t number) {
  if (!aside_) return;
  if (Held* held = find(number)) {
    held->used = ++clock_;
    return;
  }
  Held& held = add(number);
  held.wait =
      aside_([data = data_, number, loaded = held.loaded] { *loaded = load(*data, number); });
}

}  // namespace gv
