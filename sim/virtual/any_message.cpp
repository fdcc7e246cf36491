// Walks over the fields of messages, and draws each kind of field in one place.
#include "sim/virtual/any_message.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/fields.hpp"
#include "consensus/generation/equivocation.hpp"
#include "consensus/membership/statement.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/switched_mixing.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {
namespace {

constexpr std::size_t numbers_kept = 256;
constexpr std::size_t texts_kept = 16;
/// Numbers below this are often drawn at random anyway, so they need not be learnt.
constexpr std::uint64_t least_learnt = 100;
/// A new list gets fewer elements than this.
constexpr std::uint64_t elements_drawn = 5;
/// The wire's limit on elements of a list, and the roster's limit on incarnations.
constexpr std::size_t elements_max = 1024;
constexpr std::uint64_t incarnation_max = std::uint64_t{1} << 48;

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsArray : std::false_type {};
template <class T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

/// Calls `look` with each field in `value` at any depth, and with each struct or list after its
/// contents.
template <class T, class Look>
void visit_fields(T& value, const Look& look) {
  using Plain = std::remove_const_t<T>;
  if constexpr (IsVector<Plain>::value || IsArray<Plain>::value) {
    for (auto& element : value) visit_fields(element, look);
  } else if constexpr (IsOptional<Plain>::value) {
    if (value) visit_fields(*value, look);
  } else if constexpr (PlainStruct<Plain>) {
    std::apply([&](auto&... fields) { (visit_fields(fields, look), ...); }, fields_of(value));
  }
  look(value);
}

/// Makes a member valid for a roster: gives it its name in the allow-list, and an address that can
/// be dialled.
void admit(Member& member, const std::vector<PeerId>& peers) {
  if (!std::ranges::binary_search(peers, member.id)) return;
  const std::string number = std::to_string(number_of(member.id));
  member.name = "peer-" + number;
  if (!member.address.starts_with("virtual:")) member.address = "virtual:" + number;
  member.incarnation = std::min(member.incarnation, incarnation_max);
}

}  // namespace

/// Draws the values of fields by their types.
struct AnyMessage::Fields {
  AnyMessage& own;
  Rng& rng = own.rng_;

  std::uint64_t number() {
    switch (rng.below(6)) {
      case 0:
        return rng.below(4);
      case 1:
        return rng.below(200);
      case 2:
        return std::uint64_t{1} << rng.below(64);
      case 3:
        return ~rng.below(4);
      case 4:
        return rng.next();
      default:
        return own.numbers_.empty() ? 0 : own.numbers_[rng.below(own.numbers_.size())];
    }
  }

  double real() {
    constexpr double most = std::numeric_limits<float>::max();
    switch (rng.below(5)) {
      case 0:
        return 0;
      case 1:
        return rng.uniform();
      case 2:
        return -rng.uniform();
      case 3:
        return (rng.chance(0.5) ? 1 : -1) * most;
      default:
        return std::exp(80 * rng.uniform()) * (rng.chance(0.8) ? 1 : -1);
    }
  }

  std::string text() {
    if (!own.texts_.empty() && rng.chance(0.5)) return own.texts_[rng.below(own.texts_.size())];
    if (rng.chance(0.5)) {
      const auto algorithms = named_algorithms();
      return revision_settings(algorithms[rng.below(algorithms.size())].name);
    }
    std::string drawn(rng.below(rng.chance(0.1) ? revision_bytes_max + 1 : 20), ' ');
    for (char& letter : drawn) letter = static_cast<char>(rng.below(256));
    return drawn;
  }

  PeerId peer() {
    if (rng.chance(0.1)) return PeerId{rng.next()};
    return own.peers_[rng.below(own.peers_.size())];
  }

  /// Sets `value` to a random value of its type.
  template <class T>
  void draw(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = rng.chance(0.5);
    } else if constexpr (std::is_same_v<T, PeerId>) {
      value = peer();
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(rng.below(static_cast<std::uint64_t>(last_value(T{})) + 1));
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(number());
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(real());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = text();
    } else if constexpr (IsOptional<T>::value) {
      value.reset();
      if (rng.chance(0.5)) draw(value.emplace());
    } else if constexpr (IsVector<T>::value) {
      value.resize(rng.below(elements_drawn));
      for (auto& element : value) draw(element);
    } else if constexpr (IsArray<T>::value) {
      for (auto& element : value) draw(element);
    } else {
      std::apply([&](auto&... fields) { (draw(fields), ...); }, fields_of(value));
    }
  }

  /// Changes a random part of `value`.
  template <class T>
  void change(T& value) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (rng.chance(0.5)) return draw(value);
      value = static_cast<T>(static_cast<std::uint64_t>(value) + rng.below(5) - 2);
    } else if constexpr (IsOptional<T>::value) {
      if (!value || rng.chance(0.3)) return draw(value);
      change(*value);
    } else if constexpr (IsVector<T>::value) {
      change_list(value);
    } else if constexpr (IsArray<T>::value) {
      change(value[rng.below(value.size())]);
    } else if constexpr (PlainStruct<T>) {
      change_one_field(value);
    } else {
      draw(value);
    }
  }

  template <class T>
  void change_list(std::vector<T>& list) {
    const std::uint64_t way = list.empty() ? 0 : rng.below(6);
    const std::size_t at = list.empty() ? 0 : rng.below(list.size());
    if (way == 0) {
      draw(list.emplace_back());
    } else if (way == 1) {
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (way == 2) {
      list.push_back(list[at]);
    } else if (way == 3) {
      std::swap(list.front(), list[at]);
    } else {
      change(list[at]);
    }
  }

  template <class T>
  void change_one_field(T& value) {
    auto fields = fields_of(value);
    constexpr std::size_t count = std::tuple_size_v<decltype(fields)>;
    if constexpr (count > 0) {
      const std::size_t chosen = rng.below(count);
      std::size_t at = 0;
      std::apply([&](auto&... each) { ((at++ == chosen ? change(each) : void()), ...); }, fields);
    }
  }

  template <class T>
  void learn(const T& value) {
    visit_fields(value, [this](const auto& field) {
      using Field = std::decay_t<decltype(field)>;
      if constexpr (std::is_same_v<Field, std::uint64_t>) {
        if (field >= least_learnt) own.numbers_.push_back(field);
      } else if constexpr (std::is_same_v<Field, SettingsRevision>) {
        if (!field.settings.empty()) own.texts_.push_back(field.settings);
      }
    });
    while (own.numbers_.size() > numbers_kept) own.numbers_.pop_front();
    while (own.texts_.size() > texts_kept) own.texts_.pop_front();
  }

  /// Changes the message's members so that a roster admits them.
  Message admitted(Message message) {
    std::visit(
        [this](auto& known) {
          visit_fields(known, [this](auto& field) {
            if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Member>) {
              admit(field, own.peers_);
            }
          });
        },
        message);
    return message;
  }

  template <std::size_t Index = 0>
  Message blank(std::size_t index) {
    if constexpr (Index + 1 < std::variant_size_v<MessageVariant>) {
      if (index != Index) return blank<Index + 1>(index);
    }
    return std::variant_alternative_t<Index, MessageVariant>{};
  }
};

AnyMessage::AnyMessage(std::vector<PeerId> peers, Rng rng) : peers_(std::move(peers)), rng_(rng) {}

void AnyMessage::learn(const Message& message) {
  std::visit([this](const auto& known) { Fields{*this}.learn(known); }, message);
}

void AnyMessage::learn(const TransferId& id) { Fields{*this}.learn(id); }

Message AnyMessage::any() {
  Fields fields{*this};
  Message message = fields.blank(rng_.below(std::variant_size_v<MessageVariant>));
  std::visit([&](auto& known) { fields.draw(known); }, message);
  return fields.admitted(std::move(message));
}

Message AnyMessage::changed(Message message) {
  Fields fields{*this};
  for (std::uint64_t left = 1 + rng_.below(3); left > 0; --left) {
    std::visit([&](auto& known) { fields.change(known); }, message);
  }
  return fields.admitted(std::move(message));
}

TransferId AnyMessage::any_id() {
  TransferId id;
  Fields{*this}.draw(id);
  return id;
}

TransferId AnyMessage::changed(TransferId id) {
  Fields{*this}.change(id);
  return id;
}

bool passes_the_wire(const Message& message) {
  bool sound = true;
  const auto look = [&sound](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_floating_point_v<Field>) {
      sound = sound && std::isfinite(field);
    } else if constexpr (IsVector<Field>::value) {
      sound = sound && field.size() <= elements_max;
    } else if constexpr (requires { field.problem(); }) {
      sound = sound && field.problem().empty();
    }
  };
  std::visit([&](const auto& known) { visit_fields(known, look); }, message);
  return sound;
}

void claim_step(Message& message, PeerId self, std::uint64_t step) {
  const auto look = [&](auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Member>) {
      if (field.id == self) field.progress.step = step;
    }
  };
  std::visit(
      [&](auto& known) {
        visit_fields(known, look);
        if constexpr (requires { known.progress; }) known.progress.step = step;
      },
      message);
}

void sign_own(Message& message, PeerId self, const Signer& signer) {
  const auto look = [&](auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Member>) {
      if (field.id == self) restate(field, signer);
    } else if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Install>) {
      if (field.generation.id.proposer == self) field = signed_install(field.generation, signer);
    }
  };
  std::visit([&](auto& known) { visit_fields(known, look); }, message);
}

}  // namespace gv
