// The moves of peers that agree on generations, and the laws that they must obey.
#include "tests/explore/agreement_world.hpp"

#include <algorithm>
#include <tuple>

namespace gv::explore {
namespace {

constexpr Duration patience = std::chrono::milliseconds(300);
/// No rule looks further back than this.
constexpr Duration oldest = std::chrono::seconds(4);

/// Plans as all modes do: all peers that answered continue from the newest version. Peers that lack
/// it download it from the first peer that has it.
class NewestVersion : public GenerationPlanner {
 public:
  std::optional<Generation> plan(const Answers& answers, const Generation*) const override {
    Generation start;
    for (const auto& [id, answer] : answers) {
      if (is_before(start.version, answer.version)) start.version = answer.version;
    }
    PeerId holder{};
    for (const auto& [id, answer] : answers) {
      if (holder == PeerId{} && answer.version == start.version) holder = id;
    }
    for (const auto& [id, answer] : answers) {
      start.order.push_back(id);
      start.sources.push_back(answer.version == start.version ? id : holder);
      start.shares.push_back(1);
    }
    return start;
  }
  std::uint64_t samples_max() const override { return 1 << 20; }
  std::string problem(const Generation&) const override { return ""; }
  std::string problem(const Answer&) const override { return ""; }
  std::string problem(const SettingsRevision&) const override { return ""; }
  bool can_begin(const Generation& start, PeerId self, const Answer& own) const override {
    const auto rank = std::ranges::find(start.order, self) - start.order.begin();
    const bool has_it = start.sources[static_cast<std::size_t>(rank)] == self;
    return has_it == (own.version == start.version);
  }
};

const NewestVersion planner;

}  // namespace

AgreementWorld::AgreementWorld(const AgreementBound& bound)
    : bound_(&bound), faults_(bound.faults) {
  for (std::size_t number = 0; number < n; ++number) {
    peers_[number].agreement.emplace(
        id_of(number), number + 1,
        Agreement::Options{.patience = patience, .patience_max = patience},
        signer_of(id_of(number)));
  }
  for (std::size_t number = 0; number < n; ++number) {
    feed(number, [&](Agreement& own, Effects& out) {
      own.set_candidates(Time{}, candidates(number));
      own.disturb(Time{}, {}, out);
    });
  }
}

std::vector<PeerId> AgreementWorld::candidates(std::size_t number) const {
  std::vector<PeerId> all;
  for (std::size_t other = 0; other < n; ++other) {
    if (peers_[other].agreement || !peers_[number].knows_of_crash) all.push_back(id_of(other));
  }
  return all;
}

template <class Call>
void AgreementWorld::feed(std::size_t number, Call call) {
  Effects out;
  call(*peers_[number].agreement, out);
  // Decisions shown to other peers change nothing if every proposer is honest.
  std::erase_if(out.messages, [](const Outgoing& outgoing) {
    return std::holds_alternative<Decided>(outgoing.message);
  });
  wire_.add(number, out);
  const auto fields = fields_of(*peers_[number].agreement);
  std::get<double&>(fields) = 0;  // Resets the measured answer time.
  std::get<EquivocationWatch&>(fields) = {id_of(number), signer_of(id_of(number))};
  for (std::size_t other = 0; other < n; ++other) {
    if (!peers_[other].agreement) wire_.cut(other);
  }
  settle(number);
}

void AgreementWorld::settle(std::size_t number) {
  Peer& peer = peers_[number];
  const Generation* generation = peer.agreement->generation();
  if (generation == nullptr) {
    peer.key = 0;
  } else if (peer.key != generation->key()) {
    peer.key = peer.newest_key = generation->key();
    begin(number, *generation);
  }
}

void AgreementWorld::begin(std::size_t number, const Generation& generation) {
  if (!generation.contains(id_of(number))) broken_ = "a peer is in a generation without it";
  StateHash content(Time{});
  content.add(generation);
  const auto [known, is_new] = generations_.emplace(generation.key(), content.value());
  if (!is_new && known->second != content.value()) broken_ = "one key has two generations";
  if (is_before(generation.version, peers_[number].agreement->version())) {
    broken_ = "a result that a peer has is not in the generation that it begins";
  }
  join(number);
}

/// Lets the peer join the next collective if it has the version from which its generation begins.
void AgreementWorld::join(std::size_t number) {
  const Peer& peer = peers_[number];
  const ModelVersion& version = peer.agreement->version();
  const ModelVersion& from = peer.agreement->generation()->version;
  if (is_before(version, from)) return;
  begun_[{peer.key, version.step}] |= 1U << number;
}

bool AgreementWorld::can_finish(std::size_t number) const {
  const Peer& peer = peers_[number];
  if (!peer.agreement || peer.key == 0) return false;
  const std::uint64_t step = peer.agreement->version().step;
  const auto joined = begun_.find({peer.key, step});
  if (step >= bound_->steps || joined == begun_.end()) return false;
  return std::ranges::all_of(peer.agreement->generation()->order, [&](PeerId one) {
    return (joined->second >> number_of(one) & 1) != 0;
  });
}

bool AgreementWorld::can_fetch(std::size_t number) const {
  const Peer& peer = peers_[number];
  if (!peer.agreement || peer.key == 0) return false;
  const Generation& generation = *peer.agreement->generation();
  if (!is_before(peer.agreement->version(), generation.version)) return false;
  const auto rank = std::ranges::find(generation.order, id_of(number)) - generation.order.begin();
  const PeerId source = generation.sources[static_cast<std::size_t>(rank)];
  const Peer& other = peers_[number_of(source)];
  return other.agreement && other.key == peer.key;
}

/// True if a living peer is left out and could be admitted.
bool AgreementWorld::can_invite(std::size_t number) const {
  const Peer& peer = peers_[number];
  if (!peer.agreement || peer.key == 0) return false;
  return std::ranges::any_of(
      candidates(number), [&](PeerId one) { return !peer.agreement->generation()->contains(one); });
}

/// Wakes a peer to repeat its questions, or lets it sleep until it has something else to do.
void AgreementWorld::wake(std::size_t number, bool to_repeat) {
  Peer& peer = peers_[number];
  const Agreement& own = *peer.agreement;
  const auto state = [&] {
    return std::tuple(own.ballots(), own.promised(), own.generation() != nullptr,
                      own.last_generation() != nullptr);
  };
  const auto before = state();
  Effects said;
  do {
    said = {};
    peer.now = std::max(peer.now, own.deadline());
    peer.agreement->tick(peer.now, planner, said);
  } while (!to_repeat && state() == before);
  feed(number, [&](Agreement&, Effects& out) { out = std::move(said); });
}

void AgreementWorld::do_act(std::size_t number, std::size_t what) {
  if (what == repeat) return wake(number, true);
  Agreement& own = *peers_[number].agreement;
  const Generation generation = *own.generation();
  if (what == fetch) {
    own.set_version(generation.version);
    join(number);
  } else if (what == invite) {
    feed(number, [&](Agreement& agreement, Effects& out) {
      agreement.disturb(peers_[number].now, {}, out);
    });
  } else {
    const ModelVersion before = own.version();
    const ModelVersion after = after_operation(before, generation.key(), generation.order.size());
    const auto [known, is_new] = results_.emplace(Collective{generation.key(), before.step}, after);
    if (!is_new && known->second != after) broken_ = "one collective has two results";
    own.set_version(after);
    join(number);
  }
}

std::vector<Move> AgreementWorld::moves() const {
  using Kind = Move::Kind;
  std::vector<Move> moves;
  wire_.add_moves(faults_, moves);
  for (std::size_t number = 0; number < n; ++number) {
    const Peer& peer = peers_[number];
    if (!peer.agreement) continue;
    if (peer.agreement->deadline() != never) {
      moves.push_back({Kind::timer, number});
      if (faults_.losses < bound_->faults.losses) moves.push_back({Kind::act, number, repeat});
    }
    if (faults_.crashes > 0) moves.push_back({Kind::crash, number});
    const bool news = !peer.knows_of_crash && faults_.crashes < bound_->faults.crashes;
    if (news) moves.push_back({Kind::learn, number});
    if (can_finish(number)) moves.push_back({Kind::act, number, finish});
    if (can_fetch(number)) moves.push_back({Kind::act, number, fetch});
    if (can_invite(number)) moves.push_back({Kind::act, number, invite});
  }
  return moves;
}

void AgreementWorld::apply(const Move& move) {
  switch (move.kind) {
    case Move::Kind::deliver:
    case Move::Kind::repeat: {
      const Wire::Sent sent = wire_.arrive(move, faults_);
      feed(sent.to, [&](Agreement& own, Effects& out) {
        own.receive(peers_[sent.to].now, id_of(sent.from), sent.message, planner, out);
      });
      break;
    }
    case Move::Kind::lose:
      wire_.lose(move, faults_);
      break;
    case Move::Kind::timer:
      wake(move.number, false);
      break;
    case Move::Kind::crash:
      --faults_.crashes;
      peers_[move.number].agreement.reset();
      peers_[move.number].key = 0;
      wire_.cut(move.number);
      break;
    case Move::Kind::learn: {
      peers_[move.number].knows_of_crash = true;
      std::vector<PeerId> dead;
      for (std::size_t other = 0; other < n; ++other) {
        if (!peers_[other].agreement) dead.push_back(id_of(other));
      }
      feed(move.number, [&](Agreement& own, Effects& out) {
        const Time now = peers_[move.number].now;
        own.set_candidates(now, candidates(move.number));
        own.disturb(now, dead, out);
      });
      break;
    }
    default:
      do_act(move.number, move.what);
  }
  check_results();
}

/// Checks a peer that belongs to a running generation and has promised to begin it, but has not
/// begun it yet. Such a peer must not have a result that is missing from the generation. (A peer
/// whose answer came too late is not in the generation, and may have such a result.)
void AgreementWorld::check_results() {
  for (const Peer& running : peers_) {
    if (!running.agreement || running.key == 0) continue;
    const Generation& generation = *running.agreement->generation();
    for (const PeerId one : generation.order) {
      const Peer& other = peers_[number_of(one)];
      const bool is_bound = other.agreement && other.newest_key != running.key &&
                            other.agreement->promised() == generation.id;
      if (is_bound && is_before(generation.version, other.agreement->version())) {
        broken_ = "a peer has a result that the generation it promised does not know";
      }
    }
  }
}

bool AgreementWorld::is_outside() const {
  std::uint64_t ballots = 0;
  for (const Peer& peer : peers_) ballots += peer.agreement ? peer.agreement->ballots() : 0;
  return ballots > bound_->ballots;
}

std::uint64_t AgreementWorld::hash() const {
  StateHash hash(Time{});
  for (const Peer& peer : peers_) {
    StateHash own(peer.now, oldest);
    own.add(peer.agreement);
    hash.add(own.value(), peer.key, peer.newest_key, peer.knows_of_crash);
  }
  hash.add(wire_, faults_, generations_, begun_, results_);
  return hash.value();
}

std::string AgreementWorld::text(const Move& move) const {
  if (move.kind != Move::Kind::act) return wire_.text(move);
  constexpr std::array names{"finishes its collective", "has fetched the state",
                             "ends the generation for another peer", "repeats its questions"};
  return std::to_string(move.number) + " " + names[move.what];
}

}  // namespace gv::explore
