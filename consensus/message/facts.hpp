// Facts: one type for each event that a peer reports to people, tests and other parts of itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/ids.hpp"
#include "consensus/message/message.hpp"

namespace gv {

// Fields are named after their content, and names include units. `peer` is always the other peer.
// The name, sentence, meaning and remedy of each fact are in peer/node/facts.cpp.

// ---- Membership ----

struct MemberJoined {
  PeerId peer{};
  std::string address;
  std::size_t view = 0;  ///< Live peers in our view, including us.
};
struct MemberSuspected {
  PeerId peer{};
};
struct MemberRefuted {
  PeerId peer{};
};
struct MemberDead {
  PeerId peer{};
  std::size_t view = 0;
};
struct MemberLeft {
  PeerId peer{};
  std::size_t view = 0;
};
struct MemberReturned {
  PeerId peer{};
  std::string address;
  std::size_t view = 0;
};
struct MemberRemoved {
  PeerId peer{};
};
struct SelfRefuted {
  MemberState held_for = MemberState::suspect;  ///< The state that others believed us to be in.
  std::uint64_t incarnation = 0;
};
struct MessageRefused {
  PeerId peer{};
  Reason reason = Reason::none;
};

// ---- Pair exchange ----

struct OfferRefused {
  PeerId peer{};
  Reason reason = Reason::none;
};
struct ExchangeRefused {
  PeerId peer{};
  Reason reason = Reason::none;
};
struct ExchangeAborted {
  PeerId peer{};
  Reason reason = Reason::none;
};
struct ExchangeUndecided {
  PeerId peer{};
  Reason reason = Reason::none;
};
struct ExchangeResumed {
  PeerId peer{};
  Reason reason = Reason::none;
  std::uint64_t bytes_received = 0;
};
struct ExchangeCommitted {
  PeerId peer{};
  double distance = 0;  ///< Distance between the two models.
  double clip = 1;      ///< Factor by which clipping shortened the force.
  double steps_apart = 0;
  double seconds = 0;
};
struct ModelRefused {
  PeerId peer{};
  Reason reason = Reason::none;
  std::optional<double> norm;
};
struct PeerQuarantined {
  PeerId peer{};
  Reason reason = Reason::none;
  double seconds = 0;
};

// ---- Downloads of models ----

struct FetchAsked {
  PeerId peer{};
};
struct FetchResumed {
  PeerId peer{};
  std::uint64_t bytes_received = 0;  ///< Bytes received from earlier sources; only the rest must be
                                     ///< sent.
};
struct ModelFetched {
  PeerId peer{};
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
};
struct ModelServed {
  PeerId peer{};
  std::uint64_t step = 0;
};
struct FetchRefused {
  PeerId peer{};
  Reason reason = Reason::none;
};
struct FetchSourceLost {
  PeerId peer{};
  Reason reason = Reason::none;
  std::optional<std::uint64_t> bytes_received;
};
struct FetchFailed {};

// ---- The course of training ----

struct TrainingBegan {
  std::uint64_t step = 0;
  std::size_t peers = 0;
};
struct BudgetDone {
  std::uint64_t step = 0;
};
struct TargetMeasured {
  double value = 0;  ///< Accuracy, or R2 for data with targets.
  bool reached = false;
  std::uint64_t step = 0;
};
struct TargetReached {
  std::size_t votes = 0;  ///< Number of peers that have reached the target.
  std::size_t peers = 0;  ///< Number of peers that have a vote.
};
struct FinaleBegan {
  std::uint64_t step = 0;
  std::uint64_t samples = 0;  ///< Samples that all peers have trained on, as far as we know.
};
struct FinaleDone {
  std::uint64_t step = 0;
  std::uint64_t samples = 0;  ///< Samples that this peer has trained on.
};
struct FinaleMissed {};
struct CatchingUp {
  std::uint64_t step = 0;
};
struct TopologyUnfit {
  std::size_t peers = 0;
};
struct TopologyFits {
  std::size_t peers = 0;
};
struct Exploited {
  PeerId peer{};
  std::uint64_t step = 0;
  std::uint64_t source_step = 0;
  double source_learning_rate = 0;
  double source_momentum = 0;
  double learning_rate = 0;
  double momentum = 0;
  double loss_before = 0;
  double loss_after = 0;
};

// ---- Generations ----

struct GenerationBegan {
  PeerId peer{};  ///< The peer that proposed the generation.
  std::uint64_t ballot = 0;
  std::size_t peers = 0;
  std::uint64_t step = 0;
};
struct GenerationEnded {
  std::optional<PeerId> peer;  ///< The first blamed peer, if any.
};
/// The peer has left our ballot, or the status requests of a collective or pipeline run, unanswered
/// for `seconds`.
struct PeerSilent {
  PeerId peer{};
  double seconds = 0;
};
struct CollectiveResumed {
  std::optional<PeerId> peer;  ///< The first lost peer, if any.
  double seconds_lost = 0;
  std::size_t lost = 0;
  std::size_t peers = 0;
  std::uint64_t step = 0;
};
struct StateAdopted {
  PeerId peer{};
  std::uint64_t step = 0;
};
struct ModelsDiffer {
  PeerId peer{};
  std::uint64_t step = 0;
};
struct SumRefused {
  std::string why;
};
struct ModelHeld {
  std::uint64_t step = 0;
};
struct ArraysDiffer {
  PeerId peer{};
  std::uint64_t call = 0;    ///< Number of the call, counted from 1.
  std::uint64_t theirs = 0;  ///< Floats in the peer's array.
  std::uint64_t ours = 0;
};
struct GradientNotFinite {
  std::uint64_t step = 0;
  std::string why;     ///< Which values are not finite, and in which codec they are sent.
  std::string remedy;  ///< The remedy, with the settings in use.
};
struct AlgorithmSwitched {
  std::string settings;
  std::uint64_t settings_revision = 0;
  std::uint64_t step = 0;
};
struct StageAdopted {
  std::size_t stage = 0;
  std::uint64_t step = 0;
};
struct RolledBack {
  std::uint64_t from = 0;  ///< The step before the rollback.
  std::uint64_t to = 0;    ///< The step after the rollback.
};
struct StageLost {};

// ---- Links and lanes ----

struct LaneOpened {
  PeerId peer{};
  std::string kind;  ///< The kind of the lane: unix, tls or plain.
};
struct LaneClosed {
  PeerId peer{};
};
struct LaneLost {
  PeerId peer{};
  std::string why;
};
struct LaneRefused {
  PeerId peer{};
};
struct LaneListenFailed {
  std::string why;
};
struct LinkRefused {
  std::optional<PeerId> peer;  ///< Empty if the stranger's key is unknown.
  std::string why;
  std::uint64_t refused = 0;  ///< Links refused so far.
};
struct HelloRefused {
  PeerId peer{};
  std::string difference;
};
struct JoinFailed {
  std::string address;
};
struct NotReachable {
  std::string address;
};
struct KeyUsedTwice {
  PeerId peer{};
};
struct FrameNotSent {
  PeerId peer{};
  std::string why;
};
struct UnsoundMessage {
  PeerId peer{};
  std::string why;
};
struct EquivocationProved {
  PeerId peer{};
  std::uint64_t ballot = 0;
};
struct LinkQuarantined {
  PeerId peer{};
  std::string why;
  double seconds = 0;
};

// ---- Files ----

struct EventsLost {
  std::uint64_t lines = 0;
};
struct AllowListRead {};
struct AllowListRefused {
  std::string why;
};
struct Resumed {
  std::string from;
  std::uint64_t step = 0;
  std::optional<std::size_t> stages;
};
struct ResumedFromNothing {
  std::string folder;
};
struct CheckpointRefused {
  std::string why;
};
struct SaveFailed {
  std::string why;
};
struct TrainingFailed {
  std::string why;
};
struct SettingsRevisionNotWritten {};
struct SwitchRefused {
  std::string why;
};

// ---- Certificates ----

struct TicketRedeemed {
  std::string name;  ///< Name of the peer that has joined.
};
struct TicketRefused {
  std::string why;
};
struct CertificateRevoked {
  std::string name;
};

/// All facts. Code that reacts to a fact asks for its type; the name of a fact is only for people
/// and logs.
using FactVariant = std::variant<
    MemberJoined, MemberSuspected, MemberRefuted, MemberDead, MemberLeft, MemberReturned,
    MemberRemoved, SelfRefuted, MessageRefused, OfferRefused, ExchangeRefused, ExchangeAborted,
    ExchangeUndecided, ExchangeResumed, ExchangeCommitted, ModelRefused, PeerQuarantined,
    FetchAsked, FetchResumed, ModelFetched, ModelServed, FetchRefused, FetchSourceLost, FetchFailed,
    TrainingBegan, BudgetDone, TargetMeasured, TargetReached, FinaleBegan, FinaleMissed, FinaleDone,
    CatchingUp, TopologyUnfit, TopologyFits, Exploited, GenerationBegan, GenerationEnded,
    PeerSilent, CollectiveResumed, StateAdopted, ModelsDiffer, SumRefused, ModelHeld, ArraysDiffer,
    GradientNotFinite, AlgorithmSwitched, StageAdopted, RolledBack, StageLost, LaneOpened,
    LaneClosed, LaneLost, LaneRefused, LaneListenFailed, LinkRefused, HelloRefused, JoinFailed,
    NotReachable, KeyUsedTwice, FrameNotSent, UnsoundMessage, EquivocationProved, LinkQuarantined,
    EventsLost, AllowListRead, AllowListRefused, Resumed, ResumedFromNothing, CheckpointRefused,
    SaveFailed, TrainingFailed, SettingsRevisionNotWritten, SwitchRefused, TicketRedeemed,
    TicketRefused, CertificateRevoked>;

/// Any fact. Only facts.cpp compiles its copying, moving and destruction, for the same reason as
/// those of Message.
struct Fact : FactVariant {
  Fact();
  template <class F>
  requires(IsOneOf<F, FactVariant>) Fact(F fact) : Fact(OneOf<F, FactVariant>::index(), &fact) {}

  Fact(const Fact& other);
  Fact(Fact&& other) noexcept;
  Fact& operator=(const Fact& other);
  Fact& operator=(Fact&& other) noexcept;
  ~Fact();

 private:
  Fact(std::size_t index, void* fact);
};

/// The peer that a fact reports as gone: dead, left, or off the allow-list. nullopt for other
/// facts.
inline std::optional<PeerId> gone_peer(const Fact& fact) {
  if (const auto* dead = std::get_if<MemberDead>(&fact)) return dead->peer;
  if (const auto* left = std::get_if<MemberLeft>(&fact)) return left->peer;
  if (const auto* removed = std::get_if<MemberRemoved>(&fact)) return removed->peer;
  return std::nullopt;
}

}  // namespace gv
