// The functions of grapevine.h: checks what the program gives, and turns exceptions into results.
#include "peer/library/grapevine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "peer/host/given_peer.hpp"
#include "peer/host/peer_arguments.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/library/buffer_problems.hpp"
#include "peer/library/joined_peer.hpp"
#include "peer/library/merged_config.hpp"

struct gv_peer {
  ::pid_t process = 0;  ///< The process that has joined.
  gv::Duration patience{};
  std::unique_ptr<gv::JoinedPeer> joined;
};

namespace gv {
namespace {

/// Longer waits are made in pieces of this.
constexpr Duration longest_wait = std::chrono::hours(1);
constexpr std::size_t tensors_max = 1 << 20;

thread_local std::string problem_of_thread;

gv_result fail_with(gv_result result, std::string problem) {
  problem_of_thread = std::move(problem);
  return result;
}

/// Runs a function of the interface, out of which no exception may come.
template <class Function>
gv_result guarded(Function function) {
  try {
    return function();
  } catch (const std::logic_error& error) {
    return fail_with(GV_WRONG_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail_with(GV_FAILED, error.what());
  }
}

/// The struct as the program's header has it, with zeros for fields that it does not know yet.
/// Throws if its size is unset.
template <class Struct>
Struct known(const Struct* given, const char* name) {
  if (given == nullptr || given->size < sizeof given->size) {
    throw std::invalid_argument(fmt::format("{}: set its field `size` to sizeof({})", name, name));
  }
  Struct all{};
  std::memcpy(&all, given, std::min(given->size, sizeof all));
  return all;
}

std::string text_or(const char* text, std::string otherwise) {
  return text != nullptr ? text : std::move(otherwise);
}

UserTensor tensor_of(const gv_tensor& given) {
  UserTensor tensor{.name = text_or(given.name, ""),
                    .data = static_cast<std::byte*>(given.data),
                    .shape = {},
                    .elements = given.elements,
                    .type = static_cast<TensorType>(given.type)};
  if (tensor.name.empty()) throw std::invalid_argument("a tensor has no name: give each its own");
  const std::string place = "tensor '" + tensor.name + "': ";
  if (given.type > GV_I64) throw std::invalid_argument(place + "its type is unknown");
  if (given.data == nullptr || given.elements == 0) {
    throw std::invalid_argument(place + "it is empty; leave it out");
  }
  if (given.elements > std::size_t{1} << 40) throw std::invalid_argument(place + "it is too long");
  if (given.shape == nullptr) {
    tensor.shape = {tensor.elements};
    return tensor;
  }
  if (given.dimensions > 64) throw std::invalid_argument(place + "it has over 64 dimensions");
  tensor.shape.assign(given.shape, given.shape + given.dimensions);
  std::uint64_t elements = 1;
  for (const std::uint64_t length : tensor.shape) {
    elements = length > 0 && elements <= given.elements / length ? elements * length : 0;
  }
  if (elements != given.elements) {
    throw std::invalid_argument(place + "its shape does not have as many elements as it says");
  }
  return tensor;
}

enum class Part { model, state, all };

/// The tensors of a part of what is given.
UserTensors tensors_of(const gv_tensor* given, std::size_t count, Part part) {
  if (count > 0 && given == nullptr) throw std::invalid_argument("no tensors are given");
  if (count > tensors_max) throw std::invalid_argument("there are more than a million tensors");
  UserTensors tensors;
  const auto* at = reinterpret_cast<const std::byte*>(given);
  for (std::size_t i = 0; i < count; ++i) {
    const gv_tensor next = known(reinterpret_cast<const gv_tensor*>(at), "gv_tensor");
    at += given->size;
    if (next.role > GV_BUFFER) {
      throw std::invalid_argument(
          fmt::format("tensor '{}': its role is unknown", text_or(next.name, "")));
    }
    if (part != Part::all && (next.role == GV_STATE) != (part == Part::state)) continue;
    UserTensor tensor = tensor_of(next);
    if (tensor.type == TensorType::i64 && next.role != GV_STATE) {
      throw std::invalid_argument("tensor '" + tensor.name +
                                  "': integers have no mean; give it the role GV_STATE");
    }
    if (tensors.contains(tensor.name)) {
      throw std::invalid_argument("tensor '" + tensor.name + "': another one has that name");
    }
    tensors.add(std::move(tensor));
  }
  return tensors;
}

/// True if a tensor has the role. tensors_of() has checked them.
bool has_role(const gv_tensor* given, std::size_t count, std::uint32_t role) {
  const auto* at = reinterpret_cast<const std::byte*>(given);
  for (std::size_t i = 0; i < count; ++i, at += given->size) {
    if (known(reinterpret_cast<const gv_tensor*>(at), "gv_tensor").role == role) return true;
  }
  return false;
}

PeerArguments arguments_of(const gv_options& given, Problems& problems) {
  PeerArguments arguments;
  if (const char* text = std::getenv(given_variable); text != nullptr) {
    problems = take_given(text, arguments);
  }
  HostOptions& host = arguments.host;
  host.config_path = text_or(given.config, host.config_path);
  host.name = text_or(given.name, host.name);
  host.listen = text_or(given.listen, host.listen);
  host.advertise = text_or(given.advertise, host.advertise);
  for (std::size_t i = 0; i < given.joins; ++i) {
    if (given.join == nullptr || given.join[i] == nullptr) {
      throw std::invalid_argument("gv_options: `join` has fewer addresses than `joins` says");
    }
    if (i == 0) host.join.clear();
    host.join.emplace_back(given.join[i]);
  }
  if (given.wait_for > 0) host.wait_for = given.wait_for;
  host.resume = host.resume || given.resume != 0;
  host.quiet = true;
  host.all_samples = given.all_samples;
  arguments.key = text_or(given.key, arguments.key);
  arguments.authorized = text_or(given.authorized, arguments.authorized);
  arguments.folder = text_or(given.folder, arguments.folder);
  arguments.cohort = text_or(given.cohort, "");
  if (given.has_rank != 0) arguments.rank = given.rank;
  if (given.ranks > 0) arguments.ranks = given.ranks;
  arguments.rendezvous = text_or(given.rendezvous, "");
  if (given.cohort != nullptr && (given.key != nullptr || given.authorized != nullptr)) {
    throw std::invalid_argument(
        "gv_options: `cohort` takes the place of `key` and `authorized`: give it alone");
  }
  arguments.shard = text_or(given.shard, arguments.shard);
  return arguments;
}

std::string joined_text(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += (text.empty() ? "" : "\n") + to_string(problem);
  return text;
}

gv_result join(const gv_options& given, UserTensors model, UserTensors state, bool has_buffers,
               gv_peer& peer) {
  Problems problems;
  const PeerArguments arguments = arguments_of(given, problems);
  HostOptions options = arguments.host;
  const std::string settings = text_or(given.settings, "");
  const Problems more =
      prepare(arguments, options, [&](const std::string& path, const ConfigOverrides& overrides) {
        return merged_config(path, settings, overrides);
      });
  // A loop takes batches of its own size.
  options.config.allreduce.shares_by_speed = false;
  problems.insert(problems.end(), more.begin(), more.end());
  if (problems.empty() && has_buffers) problems = buffer_problems(options.config);
  if (!problems.empty()) return fail_with(GV_REFUSED, joined_text(problems));
  peer.process = ::getpid();
  peer.patience = given.patience_s > 0 ? from_seconds(given.patience_s) : Duration::max();
  peer.joined = std::make_unique<JoinedPeer>(std::move(options), std::move(model), std::move(state),
                                             std::max<std::uint64_t>(1, given.samples));
  return GV_OK;
}

/// The handle's peer. Throws if it cannot be used.
JoinedPeer& used(gv_peer* peer) {
  if (peer == nullptr) throw std::invalid_argument("the peer is NULL: call gv_join() first");
  if (peer->process != ::getpid()) {
    throw std::logic_error(
        "this process is a copy of the one that joined, made by fork(): only that "
        "one may use its peer");
  }
  return *peer->joined;
}

/// The same for a call that begins something.
JoinedPeer& free_of_calls(gv_peer* peer) {
  JoinedPeer& joined = used(peer);
  if (joined.has_left()) throw std::logic_error("this peer has left: join again with another");
  if (joined.pending() != JoinedPeer::Call::none) {
    throw std::logic_error("another call is still pending: call gv_wait() until it is done");
  }
  return joined;
}

/// Calls `wait` with pieces of the handle's patience, until it is true or the patience is over.
template <class Wait>
bool is_within(Duration patience, Wait wait) {
  while (patience > Duration{}) {
    const Duration piece = std::min(patience, longest_wait);
    if (wait(piece)) return true;
    if (patience != Duration::max()) patience -= piece;
  }
  return wait(Duration{});
}

/// The result of a host that has ended.
gv_result ended(const JoinedPeer& joined) {
  switch (joined.exit_code()) {
    case 0:
      return fail_with(GV_OVER, "training is over");
    case 2:
      return fail_with(GV_REFUSED, joined.said());
    case unreachable_code:
      return fail_with(GV_UNREACHABLE, joined.said());
    default:
      return fail_with(GV_FAILED, joined.said());
  }
}

gv_result wait_for(gv_peer& peer, gv_info* info) {
  JoinedPeer& joined = *peer.joined;
  if (!joined.has_left() && joined.pending() != JoinedPeer::Call::none) {
    const bool is_done = is_within(peer.patience, [&](Duration piece) {
      return joined.wait(piece) != UserLoop::Waited::is_late;
    });
    if (!is_done) return GV_PENDING;
  }
  if (info != nullptr) {
    known(info, "gv_info");
    gv_info found{.size = info->size,
                  .steps = joined.steps(),
                  .samples = joined.reduced().samples,
                  .progress = joined.loop().progress(),
                  .factor = joined.loop().update_factor(),
                  .again = joined.reduced().again ? 1U : 0U,
                  .needs_gradient = joined.loop().needs_gradient() ? 1U : 0U};
    std::memcpy(info, &found, std::min(info->size, sizeof found));
  }
  if (!joined.is_over() && !joined.has_left()) return GV_OK;
  // The loop's side ends just before the host does.
  const bool has_ended =
      is_within(peer.patience, [&](Duration piece) { return joined.has_ended(piece); });
  if (!has_ended) return GV_PENDING;
  const gv_result result = ended(joined);
  return result == GV_OVER && joined.has_left() ? GV_OK : result;
}

Score score_of(std::uint64_t samples, double loss) {
  return {.loss = loss * static_cast<double>(samples), .samples = samples, .predictions = samples};
}

}  // namespace
}  // namespace gv

using namespace gv;

uint32_t gv_abi(void) { return GV_ABI; }

const char* gv_problem(void) { return problem_of_thread.c_str(); }

gv_result gv_join(const gv_options* options, const gv_tensor* tensors, size_t count,
                  gv_peer** peer) {
  return guarded([&]() -> gv_result {
    if (peer == nullptr) throw std::invalid_argument("gv_join: `peer` is NULL");
    *peer = nullptr;
    const gv_options given = known(options, "gv_options");
    UserTensors model = tensors_of(tensors, count, Part::model);
    UserTensors state = tensors_of(tensors, count, Part::state);
    if (model.size() == 0) throw std::invalid_argument("a model has at least one GV_MEAN tensor");
    auto made = std::make_unique<gv_peer>();
    const bool has_buffers = has_role(tensors, count, GV_BUFFER);
    const gv_result result = join(given, std::move(model), std::move(state), has_buffers, *made);
    if (result != GV_OK) return result;
    const gv_result waited = wait_for(*made, nullptr);
    if (waited == GV_OK || waited == GV_PENDING || waited == GV_OVER) *peer = made.release();
    return waited;
  });
}

gv_result gv_step(gv_peer* peer, uint64_t samples, double loss, gv_info* info) {
  return guarded([&]() -> gv_result {
    JoinedPeer& joined = free_of_calls(peer);
    if (!joined.is_over()) joined.step(score_of(samples, loss));
    return wait_for(*peer, info);
  });
}

gv_result gv_reduce(gv_peer* peer, const gv_tensor* gradient, size_t count, uint64_t samples,
                    double loss, gv_info* info) {
  return guarded([&]() -> gv_result {
    JoinedPeer& joined = free_of_calls(peer);
    UserTensors tensors = tensors_of(gradient, count, Part::all);
    const auto& model = joined.model().all();
    const bool fits = std::ranges::equal(
        tensors.all(), model, [](const UserTensor& one, const UserTensor& other) {
          return one.elements == other.elements && one.type != TensorType::i64;
        });
    if (!fits) {
      throw std::invalid_argument(
          "gv_reduce: the gradient's tensors are not those of the model, in the same order");
    }
    if (!joined.is_over()) joined.reduce(std::move(tensors), score_of(samples, loss));
    return wait_for(*peer, info);
  });
}

gv_result gv_wait(gv_peer* peer, gv_info* info) {
  return guarded([&]() -> gv_result {
    used(peer);
    return wait_for(*peer, info);
  });
}

gv_result gv_set_learning_rate(gv_peer* peer, double learning_rate) {
  return guarded([&]() -> gv_result {
    used(peer).loop().set_learning_rate(learning_rate);
    return GV_OK;
  });
}

gv_result gv_status_json(gv_peer* peer, char* text, size_t* bytes) {
  return guarded([&]() -> gv_result {
    const JoinedPeer& joined = used(peer);
    if (bytes == nullptr) throw std::invalid_argument("gv_status_json: `bytes` is NULL");
    const std::optional<std::string> document = ask_peer(joined.folder(), "");
    if (!document) return fail_with(GV_OVER, "the peer has ended, and says no status any more");
    const std::size_t room = std::exchange(*bytes, document->size() + 1);
    if (text == nullptr || room < *bytes) {
      throw std::invalid_argument("gv_status_json: there is too little room for the text");
    }
    std::memcpy(text, document->c_str(), *bytes);
    return GV_OK;
  });
}

gv_result gv_leave(gv_peer* peer) {
  return guarded([&]() -> gv_result {
    JoinedPeer& joined = used(peer);
    joined.leave();
    const bool has_ended =
        is_within(peer->patience, [&](Duration piece) { return joined.has_ended(piece); });
    if (!has_ended) return GV_PENDING;
    const gv_result result = ended(joined);
    return result == GV_OVER ? GV_OK : result;
  });
}

void gv_free(gv_peer* peer) {
  if (peer == nullptr) return;
  // The threads of the peer are not in a copy of the process, so nothing can be waited for there.
  if (peer->process != ::getpid()) return;
  delete peer;
}
