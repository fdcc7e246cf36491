// A fuzz target: a function that takes any bytes, and inputs to start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.hpp"

namespace gv::fuzz {

using Bytes = std::vector<std::byte>;

/// Makes small changes to the first `size` bytes of `data`, which has room for `size_max`. Returns
/// the new size.
using MutateBytes = std::size_t (*)(std::uint8_t* data, std::size_t size, std::size_t size_max);

/// A part of the program that takes bytes from others.
struct Target {
  std::string_view name;
  /// Takes any bytes. Aborts if the program breaks a promise.
  void (*feed)(std::span<const std::byte>);
  /// Inputs that get far into the program. A fuzzer starts from them.
  std::vector<Bytes> (*seeds)();
  std::size_t bytes_max = 4096;  ///< Length in bytes of the longest input that is tried.
  /// Changes an input but keeps its form, using `mutate` for its parts. Null if the input has no
  /// form.
  Bytes (*mutated)(std::span<const std::byte>, Rng&, MutateBytes mutate) = nullptr;
};

// Each target is in its own file, so that a fuzzer contains only that target's code.
Target node_target();
Target lane_target();
Target handshake_target();
Target safetensors_target();
Target config_target();
Target scenario_target();
Target peers_target();
Target csv_target();
Target idx_target();
Target cifar_target();
Target pickle_target();
Target npy_target();
Target archive_target();
Target allow_list_target();
Target member_cache_target();
Target settings_revision_target();
Target rendezvous_target();
Target ledger_target();
Target ticket_target();
Target certificates_target();
Target exam_target();
Target pair_code_target();

/// All targets.
std::vector<Target> targets();

/// The bytes of a text.
inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace gv::fuzz
