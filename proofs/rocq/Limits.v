(** What no mechanism can do: accuracy against privacy, and reconstruction. *)

From Coq Require Import Reals Lra Lia List ZArith Bool.
From Sfumato Require Import Dist Privacy Series.
Import ListNotations.
Open Scope R_scope.

(** ** Accuracy against privacy *)

Lemma exp_power x n : exp x ^ n = exp (INR n * x).
Proof.
  induction n as [|n IH]; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|].
  rewrite S_INR, Rmult_plus_distr_r, exp_plus, <- IH, Rmult_1_l. simpl. ring.
Qed.

Section Accuracy.
Context {Data A : Type} (EA : decidable_equality A) (near : Data -> Data -> Prop).
Variables (M : Data -> law A) (value : A -> R) (query : Data -> R) (r rho : R).
Hypotheses (value_nonneg : forall a, 0 <= value a) (query_nonneg : forall X, 0 <= query X) (r_pos : 1 <= r).
Hypothesis private_M : private near r M.

(** The expected error is at most rho. (A mechanism whose answers may leave the range of the query is clamped first.) *)
Hypothesis accurate : forall X l, NoDup l -> sum (fun a => M X a * Rabs (value a - query X)) l <= rho.

Lemma mean_upper X l : NoDup l -> sum (fun a => M X a * value a) l <= query X + rho.
Proof.
  intros N. apply Rle_trans with (sum (fun a => M X a * query X + M X a * Rabs (value a - query X)) l).
  - apply sum_le. intros a _. rewrite <- Rmult_plus_distr_l. apply Rmult_le_compat_l; [apply mass_nonneg|].
    pose proof (Rle_abs (value a - query X)). lra.
  - rewrite sum_plus, sum_scale_r. pose proof (mass_sum (M X) l N). specialize (accurate X l N). specialize (query_nonneg X). nra.
Qed.

Lemma mean_lower X m : total (fun a => M X a * value a) m -> query X - rho <= m.
Proof.
  intros T. destruct (total_exists (fun a => M X a * Rabs (value a - query X)) rho (accurate X)) as (e & E).
  assert (e <= rho) by (apply (total_le _ _ _ E); auto).
  assert (Q : total (fun a => query X * M X a) (query X * 1)) by (apply total_scale; auto; apply mass_total).
  assert (query X * 1 <= m + e); [|lra].
  eapply total_mono; [|exact Q|].
  2: { apply total_plus; [| |exact EA|exact T|exact E]; intros a; apply Rmult_le_pos; auto using mass_nonneg, Rabs_pos. }
  intros a. simpl. rewrite <- Rmult_plus_distr_l, Rmult_comm. apply Rmult_le_compat_l; [apply mass_nonneg|].
  pose proof (Rle_abs (- (value a - query X))). rewrite Rabs_Ropp in *. lra.
Qed.

(** Lemma. (q(X') - rho)/(q(X) + rho) <= e^(epsilon k) for databases that are k steps apart. *)
Theorem accuracy_ratio k X X' : steps near k X' X -> query X' - rho <= r ^ k * (query X + rho).
Proof.
  intros S. assert (0 <= r ^ k) by (apply pow_le; lra).
  destruct (total_exists (fun a => M X' a * value a) (query X' + rho) (mean_upper X')) as (m & T).
  apply Rle_trans with (1 := mean_lower X' m T). apply (total_le _ _ _ T). intros l N.
  apply Rle_trans with (r ^ k * sum (fun a => M X a * value a) l).
  - rewrite <- sum_scale. apply sum_le. intros a _. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; auto.
    apply (group_privacy near); auto; lra.
  - apply Rmult_le_compat_l; auto. apply mean_upper; auto.
Qed.

(** A query with values 0, 1, …, n on a chain of databases: counting. *)
Variables (chain : nat -> Data) (n : nat).
Hypothesis chain_steps : forall k, (k <= n)%nat -> steps near k (chain k) (chain 0).
Hypothesis chain_query : forall k, (k <= n)%nat -> query (chain k) = INR k.

Theorem error_at_least k : (k <= n)%nat -> INR k / (1 + r ^ k) <= rho.
Proof.
  intros L. pose proof (accuracy_ratio k (chain 0) (chain k) (chain_steps k L)) as H.
  rewrite !chain_query in H by lia. simpl in H. assert (0 <= r ^ k) by (apply pow_le; lra).
  apply (Rmult_le_reg_r (1 + r ^ k)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

(** Corollary. The expected error is at least of the order 1/epsilon. *)
Theorem error_of_order_one_over_epsilon epsilon : r = exp epsilon -> 0 < epsilon <= 1 -> 2 / epsilon <= INR n ->
  1 / (epsilon * (1 + exp 2)) <= rho.
Proof.
  intros E P N.
  assert (I : 1 <= / epsilon) by (apply (Rmult_le_reg_r epsilon); [lra|]; rewrite Rinv_l; lra).
  set (k := Z.to_nat (up (/ epsilon))). destruct (archimed (/ epsilon)) as [U1 U2].
  assert (K : INR k = IZR (up (/ epsilon))).
  { unfold k. rewrite INR_IZR_INZ, Z2Nat.id; auto. apply le_IZR. lra. }
  assert (Kn : (k <= n)%nat) by (apply INR_le; unfold Rdiv in N; lra).
  apply Rle_trans with (2 := error_at_least k Kn).
  assert (R2 : r ^ k <= exp 2).
  { rewrite E, exp_power. destruct (Req_dec (INR k * epsilon) 2) as [->|D]; [lra|].
    left. apply exp_increasing. rewrite K. assert (IZR (up (/ epsilon)) <= 2 * / epsilon) by lra.
    assert (IZR (up (/ epsilon)) * epsilon <= 2 * / epsilon * epsilon) by (apply Rmult_le_compat_r; lra).
    rewrite Rmult_assoc, Rinv_l in H0 by lra. rewrite <- K in *. lra. }
  assert (0 <= r ^ k) by (apply pow_le; lra). pose proof (exp_pos 2).
  apply Rle_trans with (/ epsilon / (1 + exp 2)); [right; field; split; lra|].
  unfold Rdiv. apply Rmult_le_compat; [lra|left; apply Rinv_0_lt_compat; lra|lra|apply Rinv_le_contravar; lra].
Qed.

(** Corollary. An error below a quarter of the range needs epsilon above 1/n. *)
Theorem epsilon_at_least_one_over_n epsilon : r = exp epsilon -> (0 < n)%nat -> 4 * rho < INR n -> 1 / INR n < epsilon.
Proof.
  intros E N H. assert (P : 0 < INR n) by (apply lt_0_INR; auto).
  pose proof (accuracy_ratio n (chain 0) (chain n) (chain_steps n (le_n n))) as Q.
  rewrite !chain_query in Q by lia. simpl in Q. rewrite Rplus_0_l in Q.
  destruct (Rlt_le_dec (1 / INR n) epsilon) as [|L]; auto. exfalso.
  assert (B : r ^ n <= 3).
  { apply Rle_trans with (exp 1); [|apply exp_le_3]. rewrite E, exp_power.
    assert (INR n * epsilon <= 1).
    { apply (Rmult_le_compat_l (INR n)) in L; [|lra]. replace (INR n * (1 / INR n)) with 1 in L by (field; lra). exact L. }
    destruct (Req_dec (INR n * epsilon) 1) as [->|D]; [lra|]. left. apply exp_increasing. lra. }
  assert (0 <= r ^ n) by (apply pow_le; lra).
  assert (R0 : 0 <= rho) by (apply Rle_trans with (2 := accurate (chain 0) [] (NoDup_nil _)); simpl; lra).
  nra.
Qed.
End Accuracy.

(** ** Reconstruction *)

Section Reconstruction.
(** A database of n bits; a query is a set of positions, and its answer the number of ones there. *)
Fixpoint ones (query bits : list bool) : R :=
  match query, bits with
  | q :: query, b :: bits => (if (q && b)%bool then 1 else 0) + ones query bits
  | _, _ => 0
  end.

Fixpoint differences (c d : list bool) : R :=
  match c, d with
  | x :: c, y :: d => (if xorb x y then 1 else 0) + differences c d
  | _, _ => 0
  end.

(** Theorem. If every set of positions was answered within E, every database that fits all answers within E differs
    from the true one in at most 4 E positions. *)
Theorem reconstruction (d c : list bool) (answer : list bool -> R) E : length c = length d ->
  (forall query, Rabs (answer query - ones query d) <= E) -> (forall query, Rabs (answer query - ones query c) <= E) ->
  differences c d <= 4 * E.
Proof.
  intros L D C.
  set (more := map (fun p => fst p && negb (snd p))%bool (combine c d)).
  set (less := map (fun p => negb (fst p) && snd p)%bool (combine c d)).
  assert (S : forall c d, length c = length d ->
    differences c d = (ones (map (fun p => fst p && negb (snd p))%bool (combine c d)) c - ones (map (fun p => fst p && negb (snd p))%bool (combine c d)) d)
                    + (ones (map (fun p => negb (fst p) && snd p)%bool (combine c d)) d - ones (map (fun p => negb (fst p) && snd p)%bool (combine c d)) c)).
  { clear. induction c as [|x c IH]; intros [|y d] L; simpl in *; try discriminate; [lra|].
    rewrite (IH d) by congruence. destruct x, y; simpl; lra. }
  rewrite (S c d L). fold more less.
  assert (B : forall x e, Rabs x <= e -> - e <= x <= e).
  { intros x e H. pose proof (Rle_abs x). pose proof (Rle_abs (- x)). rewrite Rabs_Ropp in *. lra. }
  pose proof (B _ _ (D more)). pose proof (B _ _ (C more)). pose proof (B _ _ (D less)). pose proof (B _ _ (C less)). lra.
Qed.
End Reconstruction.
