// Laws that hold for every protocol, as templates. A test passes a protocol, or a function that
// makes one, and a script of inputs.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "consensus/message/effects.hpp"
#include "peer/node/facts.hpp"

namespace gv {

/// The complete content of an Effects as text, so that different effects give different texts.
inline std::string dump(const Effects& effects) {
  std::string text;
  const auto add = [&](const auto& part) { text += std::to_string(part) + ","; };
  for (const Outgoing& outgoing : effects.messages) {
    text += "message " + to_string(outgoing.to) + " " + std::to_string(outgoing.message.index());
    std::visit(
        [&](const auto& message) {
          if constexpr (requires { message.id; }) text += " " + to_string(message.id);
          if constexpr (requires { message.sequence; }) add(message.sequence);
          if constexpr (requires { message.reason; }) text += to_string(message.reason);
          if constexpr (requires { message.rumors; }) add(message.rumors.size());
          if constexpr (requires { message.members; }) add(message.members.size());
        },
        outgoing.message);
    text += "\n";
  }
  for (const Transfer& transfer : effects.transfers) {
    text += "transfer " + to_string(transfer.to) + " " + to_string(transfer.id) + " ";
    add(transfer.offset);
    add(transfer.payload.bytes.size());
    text += "\n";
  }
  for (const Cancel& cancel : effects.cancels) text += "cancel " + to_string(cancel.id) + "\n";
  for (const Fact& fact : effects.facts) {
    const FactText told = gv::describe(fact);
    text += std::string("fact ").append(told.info.name) + (told.peer ? to_string(*told.peer) : "") +
            "\n";
  }
  return text;
}

/// The results (forces and models) that a protocol has produced since the last call, as text.
template <class P>
std::string results_of(P& protocol) {
  std::string text;
  const auto add = [&](auto value) { text += std::to_string(value) + " "; };
  if constexpr (requires { protocol.take_forces(); }) {
    for (const Force& force : protocol.take_forces()) {
      text += "force ";
      add(force.scale);
      for (const float value : *force.values) add(value);
    }
  }
  if constexpr (requires { protocol.take_model(); }) {
    if (const auto model = protocol.take_model()) add(model->values.size());
  }
  return text;
}

/// An input: a function that does one thing to a protocol.
template <class P>
using Input = std::function<void(P&, Effects&)>;

/// True if the same inputs give the same effects.
template <class P>
bool is_deterministic(const std::function<P()>& make, const std::vector<Input<P>>& script) {
  P a = make();
  P b = make();
  for (const Input<P>& input : script) {
    Effects from_a;
    Effects from_b;
    input(a, from_a);
    input(b, from_b);
    if (dump(from_a) + results_of(a) != dump(from_b) + results_of(b)) return false;
  }
  return true;
}

/// True if two ticks at the same instant have the effect of one, and the deadline after these ticks
/// lies in the future. This is checked after every input of the script. Time advances by `step`.
template <class P>
bool ticks_settle(P& protocol, const std::vector<Input<P>>& script, Duration step) {
  Time now{};
  for (const Input<P>& input : script) {
    Effects ignored;
    input(protocol, ignored);
    for (int i = 0; i < 20; ++i) {
      now += step;
      Effects first;
      protocol.tick(now, first);
      Effects second;
      protocol.tick(now, second);
      if (!dump(second).empty() || protocol.deadline() <= now) return false;
    }
  }
  return true;
}

/// Gives every input marked in `repeats` twice in a row. Counts how often the second one has an
/// effect that must happen only once: adding a force, adopting a model or starting a transfer. The
/// other inputs are given once, because messages may arrive twice but a host makes each call once.
template <class P>
std::size_t repeats_with_effect(P& protocol, const std::vector<Input<P>>& script,
                                const std::vector<bool>& repeats) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < script.size(); ++i) {
    Effects first;
    script[i](protocol, first);
    results_of(protocol);
    if (!repeats.at(i)) continue;
    Effects second;
    script[i](protocol, second);
    found += second.transfers.size() + (results_of(protocol).empty() ? 0 : 1);
  }
  return found;
}

/// The reason with which the protocol refuses `input`. Returns Reason::none if the protocol does
/// not refuse with exactly one message, or if there is any other effect.
template <class P>
Reason refusal_of(P& protocol, const Input<P>& input) {
  Effects out;
  input(protocol, out);
  const bool only_word = out.messages.size() == 1 && out.transfers.empty() && out.cancels.empty() &&
                         results_of(protocol).empty();
  if (!only_word) return Reason::none;
  return std::visit(
      [](const auto& word) {
        if constexpr (requires { word.reason; }) {
          return word.reason;
        } else {
          return Reason::none;
        }
      },
      out.messages.front().message);
}

/// The largest number of messages and transfers that any single input of the script causes.
template <class P>
std::size_t most_sent(P& protocol, const std::vector<Input<P>>& script) {
  std::size_t most = 0;
  for (const Input<P>& input : script) {
    Effects out;
    input(protocol, out);
    most = std::max(most, out.messages.size() + out.transfers.size());
  }
  return most;
}

}  // namespace gv
