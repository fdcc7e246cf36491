// Converts steps to bytes, and changes them without breaking their form.
#include "tests/fuzz/inputs.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "consensus/message/message.hpp"
#include "net/wire.hpp"

namespace gv::fuzz {
namespace {

constexpr std::size_t head_bytes = 6;  ///< The bytes of action, peer, wait and length.
constexpr std::size_t step_bytes_max = 0xffff;

std::uint16_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[at]) |
                                    std::to_integer<unsigned>(bytes[at + 1]) << 8);
}

void append_number(Bytes& out, std::size_t number) {
  out.push_back(static_cast<std::byte>(number & 0xff));
  out.push_back(static_cast<std::byte>(number >> 8));
}

/// A message of this kind whose fields have their defaults.
template <std::size_t Index = 0>
Message blank_message(std::size_t kind) {
  if constexpr (Index + 1 < std::variant_size_v<MessageVariant>) {
    if (kind != Index) return blank_message<Index + 1>(kind);
  }
  return std::variant_alternative_t<Index, MessageVariant>{};
}

void mutate_bytes(Bytes& bytes, MutateBytes mutate) {
  const std::size_t size = bytes.size();
  bytes.resize(std::min(step_bytes_max, size + 64));
  bytes.resize(mutate(reinterpret_cast<std::uint8_t*>(bytes.data()), size, bytes.size()));
}

void mutate_step(Step& step, Rng& rng, MutateBytes mutate) {
  switch (rng.below(8)) {
    case 0:
      step.action = static_cast<Action>(rng.below(actions));
      break;
    case 1:
      step.from = static_cast<std::uint8_t>(rng.below(4));
      break;
    case 2:
      step.wait_ms = static_cast<std::uint16_t>(rng.below(std::size_t{1} << rng.below(17)));
      break;
    case 3:
      step.action = Action::frame;
      step.bytes = encode(blank_message(rng.below(std::variant_size_v<MessageVariant>)));
      break;
    default:
      mutate_bytes(step.bytes, mutate);
      break;
  }
}

}  // namespace

Script script_of(std::span<const std::byte> bytes) {
  Script script;
  if (bytes.empty()) return script;
  script.kind = std::to_integer<std::uint8_t>(bytes[0]);
  bytes = bytes.subspan(1);
  while (bytes.size() >= head_bytes && script.steps.size() < steps_max) {
    Step step{.action = static_cast<Action>(std::to_integer<std::size_t>(bytes[0]) % actions),
              .from = std::to_integer<std::uint8_t>(bytes[1]),
              .wait_ms = number_at(bytes, 2),
              .bytes = {}};
    const std::size_t length = number_at(bytes, 4);
    bytes = bytes.subspan(head_bytes);
    const auto content = bytes.first(std::min(length, bytes.size()));
    step.bytes.assign(content.begin(), content.end());
    bytes = bytes.subspan(content.size());
    script.steps.push_back(std::move(step));
  }
  return script;
}

Bytes to_bytes(const Script& script) {
  Bytes out{static_cast<std::byte>(script.kind)};
  for (const Step& step : script.steps) {
    out.push_back(static_cast<std::byte>(step.action));
    out.push_back(static_cast<std::byte>(step.from));
    append_number(out, step.wait_ms);
    append_number(out, step.bytes.size());
    out.insert(out.end(), step.bytes.begin(), step.bytes.end());
  }
  return out;
}

Bytes mutated_script(std::span<const std::byte> bytes, Rng& rng, MutateBytes mutate) {
  Script script = script_of(bytes);
  std::vector<Step>& steps = script.steps;
  if (steps.empty()) steps.emplace_back();
  for (std::size_t left = 1 + rng.below(3); left > 0; --left) {
    // Late steps reach states that early ones cannot.
    const std::size_t at = std::max(rng.below(steps.size()), rng.below(steps.size()));
    const auto place = steps.begin() + static_cast<std::ptrdiff_t>(at);
    switch (rng.below(10)) {
      case 0:
        if (steps.size() > 1) steps.erase(place);
        break;
      case 1:
        steps.insert(place, Step(*place));
        break;
      case 2:
        steps.insert(place, Step(steps[rng.below(steps.size())]));
        break;
      case 3:
        std::swap(*place, steps[rng.below(steps.size())]);
        break;
      default:
        mutate_step(*place, rng, mutate);
        break;
    }
  }
  return to_bytes(script);
}

}  // namespace gv::fuzz
