// Dispatches events to membership and to the mode, and informs each about changes in the other.
#include "peer/node/node.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/overloaded.hpp"
#include "consensus/trust/trust.hpp"
#include "peer/modes/switchable_mode.hpp"

namespace gv {

Node::Node(Member self, std::vector<PeerId> authorized, std::uint64_t session,
           const NodeOptions& options, const Signer& signer, Rng rng)
    : membership_(self, authorized, options.membership, signer, rng.fork("membership")),
      incarnation_(self.incarnation),
      forgotten_after_(options.membership.forget_dead_after),
      signer_(&signer),
      listed_(std::move(authorized)) {
  auto made = std::make_unique<SwitchableMode>(self.id, session, options, signer, rng);
  switchable_ = made.get();
  mode_ = std::move(made);
}

const AnyMode& Node::present_mode() const { return switchable_->as(); }

void Node::start(Time now, std::uint64_t step, bool joins_others, NodeEffects& out) {
  mode_->start(now, step, joins_others);
  membership_.set_progress(mode_->progress());
  mode_->tick(now, membership_, out, out.jobs);
  settle(now, out);
}

void Node::contact(Time now, PeerId peer, NodeEffects& out) {
  membership_.contact(now, peer, out);
  if (trust_) trust_->contact(peer, out);
  settle(now, out);
}

void Node::restarted(Time now, PeerId peer, NodeEffects& out) {
  mode_->peer_gone(now, peer, out);
  settle(now, out);
}

void Node::receive(Time now, const Envelope& envelope, NodeEffects& out) {
  const auto for_membership = [&](const auto&) {
    membership_.receive(now, envelope.from, envelope.message, out);
  };
  const auto for_mode = [&](const auto&) {
    mode_->receive(now, envelope.from, envelope.message, membership_, out);
  };
  std::visit(Overloaded{
                 [&](const Ping& m) { for_membership(m); },
                 [&](const PingRequest& m) { for_membership(m); },
                 [&](const Ack& m) { for_membership(m); },
                 [&](const Nack& m) { for_membership(m); },
                 [&](const PushPull& m) { for_membership(m); },
                 [&](const Offer& m) { for_mode(m); },
                 [&](const Accept& m) { for_mode(m); },
                 [&](const Refuse& m) { for_mode(m); },
                 [&](const Ready& m) { for_mode(m); },
                 [&](const Commit& m) { for_mode(m); },
                 [&](const Query& m) { for_mode(m); },
                 [&](const Abort& m) { for_mode(m); },
                 [&](const Resume& m) { for_mode(m); },
                 [&](const StateRequest& m) { for_mode(m); },
                 [&](const TransferAccepted& m) { for_mode(m); },
                 [&](const Propose& m) { for_mode(m); },
                 [&](const Promise& m) { for_mode(m); },
                 [&](const Preempted& m) { for_mode(m); },
                 [&](const Install& m) { for_mode(m); },
                 [&](const EndGeneration& m) { for_mode(m); },
                 [&](const Refusals& m) { for_mode(m); },
                 [&](const StatusRequest& m) { for_mode(m); },
                 [&](const StatusReply& m) { for_mode(m); },
                 [&](const ProbeAck& m) { for_mode(m); },
                 [&](const Complete& m) { for_mode(m); },
                 [&](const Audit& m) { for_mode(m); },
                 [&](const SketchRequest& m) { for_mode(m); },
                 [&](const SketchReply& m) { for_mode(m); },
                 [&](const Decided& m) { for_mode(m); },
                 [&](const Equivocation& m) { for_mode(m); },
                 [&](const Certificates& m) {
                   // A peer may have been revoked while its message waited.
                   if (!trust_ || !authorized_.contains(envelope.from)) return;
                   trust_->receive(now, envelope.from, m, membership_.view(), out);
                 },
             },
             envelope.message);
  settle(now, out);
}

void Node::refuse(Time now, PeerId peer, NodeEffects& out) {
  mode_->refuse(now, peer, out);
  settle(now, out);
}

void Node::receive_block(Time now, PeerId from, const Block& block, NodeEffects& out) {
  mode_->receive_block(now, from, block, out);
  settle(now, out);
}

void Node::lane_lost(Time now, PeerId peer, NodeEffects& out) {
  mode_->lane_lost(now, peer, out);
  settle(now, out);
}

void Node::lane_refused(Time now, PeerId peer, NodeEffects& out) {
  mode_->lane_refused(now, peer, out);
  settle(now, out);
}

void Node::gradient_ready(Time now, std::uint64_t job, std::size_t begin, NodeEffects& out) {
  mode_->gradient_ready(now, job, begin, out);
  settle(now, out);
}

void Node::complete(Time now, JobDone done, NodeEffects& out) {
  if (first_of<result::ModelHeld>(done.results) != nullptr) {
    out.tell(ModelHeld{.step = done.step});
  }
  mode_->complete(now, std::move(done), membership_, out);
  // This tick may end a collective, which the tick in settle() then notices.
  mode_->tick(now, membership_, out, out.jobs);
  settle(now, out);
}

void Node::authorize(Time now, std::vector<PeerId> authorized, NodeEffects& out) {
  listed_ = std::move(authorized);
  trusted_ = 0;
  follow_trust(now, out);
  settle(now, out);
}

void Node::certify(Time now, Trust trust, NodeEffects& out) {
  trust_ = std::make_shared<Trust>(std::move(trust));
  follow_trust(now, out);
}

std::optional<Certificate> Node::invite(Time now, const PeerKey& key, const std::string& name,
                                        bool may_invite, NodeEffects& out) {
  std::optional<Certificate> made =
      trust_->certify(now, key, name, may_invite, membership_.view(), out);
  settle(now, out);
  return made;
}

Problems Node::revoke(Time now, std::string_view name, bool with_invited, NodeEffects& out) {
  Problems problems = trust_->revoke(now, name, with_invited, membership_.view(), out);
  settle(now, out);
  return problems;
}

void Node::receive_certificates(Time now, const Certificates& shown, NodeEffects& out) {
  if (!trust_) return;
  trust_->show(now, shown, membership_.view(), out);
  settle(now, out);
}

void Node::set_wall(Time now, std::uint64_t wall_s) {
  if (trust_) trust_->set_wall(now, wall_s);
}

/// Makes membership admit only peers with certificates and peers on the allow-list.
void Node::follow_trust(Time now, NodeEffects& out) {
  const std::uint64_t version = trust_ ? trust_->version() + 1 : 1;
  if (version == trusted_) return;
  trusted_ = version;
  std::vector<PeerId> authorized = listed_;
  if (trust_) {
    for (const Certificate& certificate : trust_->accepted()) {
      authorized.push_back(signer_->id_of(certificate.key));
    }
  }
  authorized_ = std::set<PeerId>(authorized.begin(), authorized.end());
  membership_.authorize(now, std::move(authorized), out);
}

void Node::tick(Time now, NodeEffects& out) {
  membership_.tick(now, out);
  if (trust_) trust_->tick(now, membership_.view(), out);
  settle(now, out);
}

void Node::settle(Time now, NodeEffects& out) {
  if (trust_) follow_trust(now, out);
  // The mode must learn of deaths that membership has detected. The loop uses an index because the
  // mode appends facts too.
  for (std::size_t i = 0; i < out.facts.size(); ++i) {
    if (const auto gone = gone_peer(out.facts[i])) mode_->peer_gone(now, *gone, out);
  }
  // After a sleep of `forgotten_after_` or more, the other peers have forgotten us. None of them
  // then declares us dead, so our incarnation does not change.
  const bool has_slept =
      now - std::exchange(settled_at_, now) >= forgotten_after_ && membership_.view().size() > 1;
  if (has_slept || membership_.self().incarnation != incarnation_) {
    incarnation_ = membership_.self().incarnation;
    mode_->woke_up(now, membership_, out);
  }
  mode_->tick(now, membership_, out, out.jobs);
  membership_.set_progress(mode_->progress());
  if (!leaving_ && mode_->course().is_over(membership_, mode_->is_idle())) leave(now, out);
  // Let an exchange under way settle first. Otherwise the partner would treat us as gone.
  if (leaving_ && !told_others_ && (is_finished() || !mode_->is_settling())) {
    told_others_ = true;
    membership_.leave(now, out);
  }
}

Problems Node::switch_to(Time now, std::string_view settings, NodeEffects& out) {
  Problems problems = mode_->switch_to(now, settings);
  settle(now, out);
  return problems;
}

void Node::leave(Time now, NodeEffects& out) {
  if (leaving_) return;
  leaving_ = true;
  mode_->leave(now, out);
  mode_->tick(now, membership_, out, out.jobs);
  settle(now, out);
}

Time Node::deadline() const {
  const Time due = std::min(membership_.deadline(), mode_->deadline());
  return trust_ ? std::min(due, trust_->deadline()) : due;
}

}  // namespace gv
