(** The filter with approximate releases: losses and deltas add up side by side.

    A release of (epsilon, delta) holds, on a share of 1 - delta of its mass, a release of ratio e^epsilon. *)

From Coq Require Import Reals Lra Lia List QArith Qreals.
From Sfumato Require Import Dist Privacy Approximate Filter.
Import ListNotations.
Open Scope R_scope.

Section Pair.
Context {Data Question Answer Coin : Type}.
Variables (EA : decidable_equality Answer) (EC : decidable_equality Coin).
Local Notation entry := (@entry Question Answer Coin).
Local Notation history := (list entry).

Variables (release core : history -> Question -> Data -> law Answer) (D D' : Data).
Variables (cost delta : Question -> Q) (epsilon most : Q).
Hypotheses (epsilon_nonneg : (0 <= epsilon)%Q) (most_range : (0 <= most <= 1)%Q).
Hypothesis delta_range : forall q, (0 <= delta q <= 1)%Q.

Definition ratio (q : Question) : R := exp (Q2R (cost q)).

Hypothesis held : forall X h q a, (1 - Q2R (delta q)) * core h q X a <= release h q X a.
Hypothesis close : forall h q a, core h q D a <= ratio q * core h q D' a.
Hypothesis close' : forall h q a, core h q D' a <= ratio q * core h q D a.

(** The sum of the deltas that were charged. *)
Fixpoint deltas (h : history) : Q :=
  match h with
  | [] => 0
  | Charged q _ :: h => deltas h + delta q
  | _ :: h => deltas h
  end.

Variable kept : history -> Question -> option Answer.

(** Accept iff afterwards both sums fit. *)
Definition delta_rule (h : history) (q : Question) : decision :=
  match kept h q with
  | Some a => Kept a
  | None => if (accepts epsilon (spent cost h) (cost q) && accepts most (deltas h) (delta q))%bool then Fresh else Refuse
  end.

Lemma Q2R_range x : (0 <= x <= 1)%Q -> 0 <= Q2R x <= 1.
Proof.
  intros [L H]. apply Qle_Rle in L. apply Qle_Rle in H. unfold Q2R in L at 1. unfold Q2R in H at 2. simpl in *. lra.
Qed.

Lemma deltas_nonneg h : 0 <= Q2R (deltas h).
Proof.
  induction h as [|[c|q a|q|q] h IH]; cbn [deltas]; auto; [unfold Q2R; simpl; lra|].
  rewrite Q2R_plus. pose proof (Q2R_range _ (delta_range q)). lra.
Qed.

Lemma likelihood_held X h : Q2R (deltas h) <= 1 -> (1 - Q2R (deltas h)) * likelihood core h X <= likelihood release h X.
Proof.
  induction h as [|[c|q a|q|q] h IH]; cbn [deltas likelihood]; auto.
  - intros _. unfold Q2R. simpl. lra.
  - rewrite Q2R_plus. intros S. pose proof (Q2R_range _ (delta_range q)). pose proof (deltas_nonneg h).
    assert (I : (1 - Q2R (deltas h)) * likelihood core h X <= likelihood release h X) by (apply IH; lra).
    pose proof (held X h q a). pose proof (mass_nonneg (core h q X) a). pose proof (likelihood_nonneg core h X).
    apply Rle_trans with ((1 - Q2R (delta q)) * core h q X a * ((1 - Q2R (deltas h)) * likelihood core h X)).
    + assert (0 <= core h q X a * likelihood core h X) by (apply Rmult_le_pos; auto).
      replace ((1 - Q2R (delta q)) * core h q X a * ((1 - Q2R (deltas h)) * likelihood core h X))
        with ((1 - Q2R (delta q)) * (1 - Q2R (deltas h)) * (core h q X a * likelihood core h X)) by ring.
      apply Rmult_le_compat_r; auto. nra.
    + apply Rmult_le_compat; auto; apply Rmult_le_pos; auto; lra.
Qed.

Lemma within_deltas s t : (deltas (final delta_rule s [] t) <= most)%Q.
Proof.
  apply (final_invariant delta_rule (fun h => (deltas h <= most)%Q)); cbn [deltas]; auto; [|apply most_range].
  intros h q a H E. unfold delta_rule in E. destruct (kept h q); [discriminate|].
  destruct (_ && _)%bool eqn:B; [|discriminate]. apply andb_prop in B as [_ B]. apply Qle_bool_iff in B. exact B.
Qed.

Lemma transcript_held X s t : (1 - Q2R most) * run delta_rule core s [] X t <= run delta_rule release s [] X t.
Proof.
  rewrite !run_start. pose proof (within_deltas s t) as W. apply Qle_Rle in W.
  pose proof (Q2R_range _ most_range). pose proof (tossed_nonneg delta_rule s [] t) as T.
  set (h := final delta_rule s [] t) in *.
  pose proof (likelihood_held X h ltac:(lra)). pose proof (likelihood_nonneg core h X).
  apply Rle_trans with (tossed delta_rule s [] t * ((1 - Q2R (deltas h)) * likelihood core h X)).
  - replace ((1 - Q2R most) * (tossed delta_rule s [] t * likelihood core h X))
      with (tossed delta_rule s [] t * ((1 - Q2R most) * likelihood core h X)) by ring.
    apply Rmult_le_compat_l; auto. apply Rmult_le_compat_r; auto. lra.
  - apply Rmult_le_compat_l; auto.
Qed.

Lemma core_filter Y Y' s t : (forall h q a, core h q Y a <= ratio q * core h q Y' a) ->
  run delta_rule core s [] Y t <= exp (Q2R epsilon) * run delta_rule core s [] Y' t.
Proof.
  intros C. apply (ratio_filter _ _ Y Y' ratio); auto.
  - rewrite <- exp_0. apply exp_le. apply Qle_Rle in epsilon_nonneg. unfold Q2R in epsilon_nonneg at 1.
    simpl in epsilon_nonneg. lra.
  - intros h q _ E. unfold delta_rule in E. destruct (kept h q); [discriminate|].
    destruct (_ && _)%bool eqn:B; [|discriminate]. apply andb_prop in B as [B _]. apply Qle_bool_iff in B.
    unfold ratio. rewrite charged_exp, <- exp_plus. apply exp_le. rewrite <- Q2R_plus. apply Qle_Rle.
    rewrite Qplus_comm. exact B.
Qed.

(** Theorem. For every adaptive analyst the whole transcript is within (e^epsilon, most). *)
Theorem delta_filter_adaptive s :
  within (exp (Q2R epsilon)) (Q2R most) (transcript delta_rule release EA EC s D) (transcript delta_rule release EA EC s D').
Proof.
  pose proof (Q2R_range _ most_range).
  assert (ES : decidable_equality (@step Answer Coin)) by (unfold decidable_equality in *; decide equality).
  apply (parts_within (list_eq_dec ES) _ (1 - Q2R most) (1 - Q2R most)); try lra; [left; apply exp_pos|].
  exists (transcript delta_rule core EA EC s D), (transcript delta_rule core EA EC s D').
  repeat split; intros t; simpl; try apply transcript_held; apply core_filter; auto.
Qed.
End Pair.
