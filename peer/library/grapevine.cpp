// Implements grapevine.h: checks the program's arguments, and turns exceptions into results.
#include "peer/library/grapevine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "consensus/trust/trust.hpp"
#include "peer/config/buffer_problems.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/swarm_start.hpp"
#include "peer/library/join_options.hpp"
#include "peer/library/joined_means.hpp"
#include "peer/library/joined_peer.hpp"

struct gv_peer {
  ::pid_t process = 0;  ///< The process in which the peer joined.
  gv::Duration patience{};
  std::unique_ptr<gv::JoinedPeer> joined;  ///< Null if the peer has no model.
  std::unique_ptr<gv::JoinedMeans> means;  ///< Null if the peer has a model.

  gv::GuestHost& host() const { return means ? means->host() : joined->host(); }
};

namespace gv {
namespace {

/// Waits longer than this are split into several waits.
constexpr Duration longest_wait = std::chrono::hours(1);
/// The longest time from a peer's start until it listens for commands.
constexpr Duration longest_wait_for_listening = std::chrono::seconds(10);
constexpr std::size_t tensors_max = 1 << 20;

thread_local std::string problem_of_thread;

gv_result fail_with(gv_result result, std::string problem) {
  problem_of_thread = std::move(problem);
  return result;
}

/// Runs the body of an interface function. Converts every exception to a result, because a C
/// program cannot catch any.
template <class Function>
gv_result guarded(Function function) {
  try {
    return function();
  } catch (const InviterIsLate& error) {
    return fail_with(GV_UNREACHABLE, error.what());
  } catch (const std::logic_error& error) {
    return fail_with(GV_WRONG_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail_with(GV_FAILED, error.what());
  }
}

UserTensor tensor_of(const gv_tensor& given, const char* unnamed = "") {
  UserTensor tensor{.name = text_or(given.name, unnamed),
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

/// Returns the given tensors that belong to `part`.
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

/// True if one of the tensors has this role. tensors_of() must have checked the tensors before.
bool has_role(const gv_tensor* given, std::size_t count, std::uint32_t role) {
  const auto* at = reinterpret_cast<const std::byte*>(given);
  for (std::size_t i = 0; i < count; ++i, at += given->size) {
    if (known(reinterpret_cast<const gv_tensor*>(at), "gv_tensor").role == role) return true;
  }
  return false;
}

/// Makes a handle for a peer that has not started yet.
std::unique_ptr<gv_peer> handle_of(const gv_options& given) {
  auto made = std::make_unique<gv_peer>();
  made->process = ::getpid();
  made->patience = given.patience_s > 0 ? from_seconds(given.patience_s) : Duration::max();
  return made;
}

gv_result join(const gv_options& given, UserTensors model, UserTensors state, bool has_buffers,
               gv_peer& peer) {
  Problems problems = checkpoint_problems(model);
  if (!problems.empty()) return fail_with(GV_REFUSED, joined_text(problems));
  HostOptions options = options_of(given, problems);
  // The program's own loop chooses the size of its batches, so the peer must not change it.
  options.config.allreduce.shares_by_speed = false;
  options.has_buffers = has_buffers;
  if (problems.empty() && has_buffers) problems = buffer_problems(options.config);
  if (!problems.empty()) return fail_with(GV_REFUSED, joined_text(problems));
  peer.joined = std::make_unique<JoinedPeer>(std::move(options), std::move(model), std::move(state),
                                             copies_by(given.copy, given.copy_context),
                                             std::max<std::uint64_t>(1, given.samples));
  return GV_OK;
}

gv_result join_without_model(const gv_options& given, gv_peer& peer) {
  Problems problems;
  HostOptions options = options_of(given, problems);
  if (!problems.empty()) return fail_with(GV_REFUSED, joined_text(problems));
  options.config = without_model(std::move(options.config));
  options.resume = false;  // There is no state from which the peer could resume.
  peer.means = std::make_unique<JoinedMeans>(std::move(options));
  return GV_OK;
}

/// Throws if the handle is null, or if this process is a fork of the one that made the handle.
void check_handle(const gv_peer* peer) {
  if (peer == nullptr) throw std::invalid_argument("the peer is NULL: call gv_join() first");
  if (peer->process != ::getpid()) {
    throw std::logic_error(
        "this process is a copy of the one that joined, made by fork(): only that "
        "one may use its peer");
  }
}

/// Returns the handle's peer. Throws if the handle cannot be used, or if the peer has no model.
JoinedPeer& used(gv_peer* peer) {
  check_handle(peer);
  if (!peer->joined) {
    throw std::logic_error("this peer has no model: it takes part in gv_mean() alone");
  }
  return *peer->joined;
}

/// Returns the handle's peer for a new call with an array. Throws if the peer has a model, has
/// left, or still has a pending call.
JoinedMeans& used_for_means(gv_peer* peer) {
  check_handle(peer);
  if (!peer->means) {
    throw std::logic_error("this peer has a model: means of arrays need gv_join_collective()");
  }
  if (peer->means->has_left()) throw std::logic_error("this peer has left: join again");
  if (peer->means->pending()) {
    throw std::logic_error("another call is still pending: call gv_wait() until it is done");
  }
  return *peer->means;
}

/// Like used(), but also throws if the peer has left or another call is pending.
JoinedPeer& free_of_calls(gv_peer* peer) {
  JoinedPeer& joined = used(peer);
  if (joined.has_left()) throw std::logic_error("this peer has left: join again with another");
  if (joined.pending() != JoinedPeer::Call::none) {
    throw std::logic_error("another call is still pending: call gv_wait() until it is done");
  }
  return joined;
}

/// Calls `wait` repeatedly, each time with a part of `patience`, until it returns true or the
/// patience is used up. Returns true if `wait` did.
template <class Wait>
bool is_within(Duration patience, Wait wait) {
  while (patience > Duration{}) {
    const Duration piece = std::min(patience, longest_wait);
    if (wait(piece)) return true;
    if (patience != Duration::max()) patience -= piece;
  }
  return wait(Duration{});
}

/// Converts the exit code of a host that has ended to the result of a call.
gv_result ended(const GuestHost& host) {
  switch (host.exit_code()) {
    case 0:
      return fail_with(GV_OVER, "training is over");
    case 2:
      return fail_with(GV_REFUSED, host.said());
    case unreachable_code:
      return fail_with(GV_UNREACHABLE, host.said());
    default:
      return fail_with(GV_FAILED, host.said());
  }
}

gv_result fail_to_copy() {
  return fail_with(GV_FAILED,
                   "gv_options: `copy` has failed: see why it did, and join again with resume");
}

/// Waits until the host has ended, which happens shortly after its training loop has ended. Returns
/// the reason for the end, or GV_PENDING if the patience runs out first.
gv_result wait_for_end(const gv_peer& peer) {
  GuestHost& host = peer.host();
  const bool has_ended =
      is_within(peer.patience, [&](Duration piece) { return host.has_ended(piece); });
  if (!has_ended) return GV_PENDING;
  const gv_result result = ended(host);
  const bool has_failed = peer.joined && peer.joined->has_failed_to_copy();
  return result == GV_OVER && has_failed ? fail_to_copy() : result;
}

/// Throws if `info` is not null and its size is unset. Every call checks this first.
void check_info(const gv_info* info) {
  if (info != nullptr) known(info, "gv_info");
}

/// Fills in `info` for a training loop, unless `info` is null. `part` is the number of our samples
/// in an epoch.
void tell_of_loop(JoinedPeer& joined, std::uint64_t part, gv_info* info) {
  if (info == nullptr) return;
  const auto& rule = joined.index_rule();
  const bool is_leased = rule && rule->part == IndexRule::Part::common;
  gv_info found{.size = info->size,
                .steps = joined.steps(),
                .samples = joined.reduced().samples,
                .progress = joined.loop().progress(),
                .factor = joined.loop().update_factor(),
                .again = joined.reduced().again ? 1U : 0U,
                .needs_gradient = joined.loop().needs_gradient() ? 1U : 0U,
                .position = joined.position(),
                .batch = joined.batch(),
                .part = part,
                .is_leased = is_leased ? 1U : 0U};
  std::memcpy(info, &found, std::min(info->size, sizeof found));
}

gv_result wait_for(gv_peer& peer, gv_info* info) {
  JoinedPeer& joined = *peer.joined;
  if (!joined.has_left() && joined.pending() != JoinedPeer::Call::none) {
    const bool is_done = is_within(peer.patience, [&](Duration piece) {
      return joined.wait(piece) != UserLoop::Waited::is_late;
    });
    if (!is_done) return GV_PENDING;
  }
  tell_of_loop(joined, 0, info);
  if (joined.has_failed_to_copy()) return fail_to_copy();
  if (!joined.is_over() && !joined.has_left()) return GV_OK;
  const gv_result result = wait_for_end(peer);
  return result == GV_OVER && joined.has_left() ? GV_OK : result;
}

void tell_of_mean(const JoinedMeans& means, gv_info* info) {
  if (info == nullptr) return;
  gv_info found{.size = info->size,
                .steps = means.mean().number > 0 ? means.mean().number : means.common_calls(),
                .samples = means.mean().peers,
                .progress = 0,
                .factor = 1,
                .again = 0,
                .needs_gradient = 0,
                .position = 0,
                .batch = 0,
                .part = 0,
                .is_leased = 0};
  std::memcpy(info, &found, std::min(info->size, sizeof found));
}

/// Waits for the end of the call with this number. If `call` is 0, waits until the peer has joined.
gv_result wait_for_mean(gv_peer& peer, std::uint64_t call, Duration patience, gv_info* info) {
  JoinedMeans& means = *peer.means;
  MeanCalls::Waited waited = MeanCalls::Waited::is_late;
  const bool is_done = is_within(patience, [&](Duration piece) {
    waited = means.wait(call, piece);
    return waited != MeanCalls::Waited::is_late;
  });
  if (!is_done) return GV_PENDING;
  tell_of_mean(means, info);
  if (waited == MeanCalls::Waited::is_over) return wait_for_end(peer);
  if (!means.mean().is_missed) return GV_OK;
  return fail_with(GV_MISSED,
                   fmt::format("the other peers have made {} calls without this one meanwhile, so "
                               "its array is as it was; the next call meets theirs",
                               means.common_calls()));
}

/// Waits for the pending call, if there is one.
gv_result wait_for_pending_mean(gv_peer& peer, gv_info* info) {
  JoinedMeans& means = *peer.means;
  if (means.has_left()) {
    const gv_result result = wait_for_end(peer);
    return result == GV_OVER ? GV_OK : result;
  }
  if (!means.pending()) {
    tell_of_mean(means, info);
    return GV_OK;
  }
  return wait_for_mean(peer, *means.pending(), peer.patience, info);
}

/// Returns the array that the program gave to a call. Throws if the array cannot be averaged.
UserTensors array_of(const gv_tensor* given) {
  const gv_tensor array = known(given, "gv_tensor");
  if (array.type == GV_I64) throw std::invalid_argument("integers have no mean: give floats");
  UserTensors tensors;
  tensors.add(tensor_of(array, "array"));
  return tensors;
}

/// Returns the command that asks a peer for a ticket. Throws if the terms are invalid.
std::string invite_command(std::uint64_t uses, double valid_s, bool may_invite) {
  TicketTerms terms{.uses = static_cast<std::uint32_t>(uses), .may_invite = may_invite};
  if (uses == 0 || uses > ticket_uses_max) {
    throw std::invalid_argument(
        fmt::format("gv_invite: `uses` must be from 1 to {}", ticket_uses_max));
  }
  constexpr auto longest_s = static_cast<double>(certificate_lifetime_s);
  if (!(valid_s >= 0 && valid_s <= longest_s)) {
    throw std::invalid_argument(
        fmt::format("gv_invite: `valid_s` must be from 0 to {}", certificate_lifetime_s));
  }
  if (valid_s > 0) terms.valid_s = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(valid_s));
  return swarm_command_text({.invite = terms});
}

/// Copies the ticket in the peer's reply to `to`. If there is none, fails with the reason.
gv_result ticket_in(const std::string& reply, std::span<char> to) {
  const InviteAnswer answer = read_invite_answer(reply);
  if (answer.ticket.empty() || answer.ticket.size() >= to.size()) {
    return fail_with(GV_REFUSED, answer.problem.empty() ? "the peer has made no ticket: ask again"
                                                        : answer.problem);
  }
  std::memcpy(to.data(), answer.ticket.c_str(), answer.ticket.size() + 1);
  return GV_OK;
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
    // Not checked: values that a checkpoint will replace, and values that `copy` has not fetched
    // yet.
    if (given.resume == 0 && given.copy == nullptr) model.check_finite();
    std::unique_ptr<gv_peer> made = handle_of(given);
    const bool has_buffers = has_role(tensors, count, GV_BUFFER);
    const gv_result result = join(given, std::move(model), std::move(state), has_buffers, *made);
    if (result != GV_OK) return result;
    const gv_result waited = wait_for(*made, nullptr);
    if (waited == GV_OK || waited == GV_PENDING || waited == GV_OVER) *peer = made.release();
    return waited;
  });
}

gv_result gv_join_collective(const gv_options* options, gv_peer** peer) {
  return guarded([&]() -> gv_result {
    if (peer == nullptr) throw std::invalid_argument("gv_join_collective: `peer` is NULL");
    *peer = nullptr;
    const gv_options given = known(options, "gv_options");
    std::unique_ptr<gv_peer> made = handle_of(given);
    const gv_result result = join_without_model(given, *made);
    if (result != GV_OK) return result;
    const gv_result waited = wait_for_pending_mean(*made, nullptr);
    if (waited == GV_OK || waited == GV_PENDING) *peer = made.release();
    return waited;
  });
}

gv_result gv_mean(gv_peer* peer, const gv_tensor* array, double weight, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
    JoinedMeans& means = used_for_means(peer);
    means.set_pending(means.begin(array_of(array), weight));
    return wait_for_pending_mean(*peer, info);
  });
}

gv_result gv_mean_begin(gv_peer* peer, const gv_tensor* array, double weight, uint64_t* call) {
  return guarded([&]() -> gv_result {
    JoinedMeans& means = used_for_means(peer);
    if (call == nullptr) throw std::invalid_argument("gv_mean_begin: `call` is NULL");
    *call = means.begin(array_of(array), weight);
    return GV_OK;
  });
}

gv_result gv_mean_end(gv_peer* peer, uint64_t call, double patience_s, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
    if (!used_for_means(peer).is_open(call)) {
      throw std::invalid_argument("gv_mean_end: this call was not begun, or has been ended");
    }
    constexpr double longest_s = 1e9;
    const Duration patience =
        patience_s >= 0 ? from_seconds(std::min(patience_s, longest_s)) : peer->patience;
    return wait_for_mean(*peer, call, patience, info);
  });
}

gv_result gv_step(gv_peer* peer, uint64_t samples, double loss, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
    JoinedPeer& joined = free_of_calls(peer);
    if (!joined.is_over()) joined.step(score_of(samples, loss));
    return wait_for(*peer, info);
  });
}

gv_result gv_reduce(gv_peer* peer, const gv_tensor* gradient, size_t count, uint64_t samples,
                    double loss, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
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

gv_result gv_reduce_begin(gv_peer* peer, const gv_tensor* part, size_t count) {
  return guarded([&]() -> gv_result {
    JoinedPeer& joined = free_of_calls(peer);
    const UserTensors tensors = tensors_of(part, count, Part::all);
    if (joined.is_over()) return wait_for(*peer, nullptr);
    joined.reduce_begin(tensors);
    return GV_OK;
  });
}

gv_result gv_reduce_end(gv_peer* peer, uint64_t samples, double loss, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
    JoinedPeer& joined = free_of_calls(peer);
    if (!joined.is_over()) joined.reduce_end(score_of(samples, loss));
    return wait_for(*peer, info);
  });
}

gv_result gv_wait(gv_peer* peer, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
    check_handle(peer);
    return peer->means ? wait_for_pending_mean(*peer, info) : wait_for(*peer, info);
  });
}

gv_result gv_set_learning_rate(gv_peer* peer, double learning_rate) {
  return guarded([&]() -> gv_result {
    used(peer).loop().set_learning_rate(learning_rate);
    return GV_OK;
  });
}

gv_result gv_indices(gv_peer* peer, uint64_t samples, uint64_t position, uint64_t* indices,
                     size_t count, gv_info* info) {
  return guarded([&]() -> gv_result {
    check_info(info);
    JoinedPeer& joined = free_of_calls(peer);
    if (indices == nullptr && count > 0) {
      throw std::invalid_argument("gv_indices: `indices` is NULL");
    }
    constexpr std::uint64_t most = std::uint64_t{1} << 62;
    if (samples == 0 || samples > most || position > most) {
      throw std::invalid_argument("gv_indices: there are no samples, or more than 2^62");
    }
    const std::uint64_t part = joined.find_indices(samples, position, {indices, count});
    tell_of_loop(joined, part, info);
    return GV_OK;
  });
}

gv_result gv_set_position(gv_peer* peer, uint64_t position) {
  return guarded([&]() -> gv_result {
    free_of_calls(peer).loop().set_position(position);
    return GV_OK;
  });
}

gv_result gv_invite(gv_peer* peer, uint64_t uses, double valid_s, uint32_t may_invite, char* text,
                    size_t bytes) {
  return guarded([&]() -> gv_result {
    check_handle(peer);
    if (text == nullptr || bytes < GV_TICKET_BYTES) {
      throw std::invalid_argument("gv_invite: give `text` room for GV_TICKET_BYTES");
    }
    const std::string command = invite_command(uses, valid_s, may_invite != 0);
    // A peer that has just started does not listen for commands yet.
    constexpr auto pause = std::chrono::milliseconds(10);
    const Duration most = std::min(peer->patience, longest_wait_for_listening);
    for (Duration waited{}; waited <= most; waited += pause) {
      const std::optional<std::string> reply = ask_peer(peer->host().folder(), command);
      if (reply) return ticket_in(*reply, {text, bytes});
      if (peer->host().has_ended(pause)) return wait_for_end(*peer);
    }
    return GV_PENDING;
  });
}

gv_result gv_status_json(gv_peer* peer, char* text, size_t* bytes) {
  return guarded([&]() -> gv_result {
    check_handle(peer);
    if (bytes == nullptr) throw std::invalid_argument("gv_status_json: `bytes` is NULL");
    const std::optional<std::string> document = ask_peer(peer->host().folder(), "");
    if (!document && !peer->host().has_ended({})) return GV_PENDING;
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
    check_handle(peer);
    if (peer->means) {
      peer->means->leave();
    } else {
      peer->joined->leave();
    }
    const gv_result result = wait_for_end(*peer);
    return result == GV_OVER ? GV_OK : result;
  });
}

void gv_free(gv_peer* peer) {
  if (peer == nullptr) return;
  // A forked copy of the process does not have the peer's threads, so it has nothing to wait for.
  if (peer->process != ::getpid()) return;
  delete peer;
}
