(** Rows that count for their owners within a capacity.

    Each row has owners (one for a value that a person has, two for a row of two people) and a tag. A choice of rows
    has no tag twice and at most [cap] rows of each person. The largest size of a choice is what is released. *)

From Coq Require Import Arith Lia List Bool.
Import ListNotations.

Section Flow.
Context {Person Tag : Type}.
Variables (EqP : forall a b : Person, {a = b} + {a <> b}) (EqT : forall a b : Tag, {a = b} + {a <> b}).

Definition row : Type := (list Person * Tag)%type.

Definition owned (p : Person) (r : row) : bool := if in_dec EqP p (fst r) then true else false.
Definition load (p : Person) (a : list row) : nat := length (filter (owned p) a).

Definition choice (cap : nat) (rows a : list row) : Prop :=
  NoDup (map snd a) /\ incl a rows /\ forall p, load p a <= cap.

Lemma load_filter p q a : load p (filter q a) <= load p a.
Proof. unfold load. induction a as [|r a IH]; simpl; auto. destruct (q r); simpl; destruct (owned p r); simpl; lia. Qed.

(** Theorem. When the rows of one person go, the largest choice loses at most [cap]. *)
Theorem flow_bound u cap rows rows' a : (forall r, In r rows' -> owned u r = false -> In r rows) ->
  choice cap rows' a -> exists b, choice cap rows b /\ length a <= length b + cap.
Proof.
  intros H (N & I & L). exists (filter (fun r => negb (owned u r)) a). split; [split; [|split]|].
  - clear - N. induction a as [|r a IH]; simpl in *; auto. inversion N; subst. destruct (owned u r); simpl; auto.
    constructor; auto. intros C. apply H1. apply in_map_iff in C as (x & E & C). apply filter_In in C as [C _].
    rewrite <- E. apply in_map. exact C.
  - intros r Hr. apply filter_In in Hr as [Hr O]. apply H; auto. destruct (owned u r); auto; discriminate.
  - intros p. eapply Nat.le_trans; [apply load_filter|apply L].
  - specialize (L u). unfold load in L. clear - L.
    assert (E : length a = length (filter (owned u) a) + length (filter (fun r => negb (owned u r)) a)).
    { clear L. induction a as [|r a IH]; simpl; auto. destruct (owned u r); simpl; lia. }
    lia.
Qed.

(** Rows that come only add choices. *)
Theorem flow_monotone cap rows rows' a : incl rows rows' -> choice cap rows a -> choice cap rows' a.
Proof. intros H (N & I & L). repeat split; auto. intros r Hr. auto. Qed.

(** *** The size of the largest choice, executable on small tables *)

Definition less (owners : list Person) (room : Person -> nat) (p : Person) : nat :=
  if in_dec EqP p owners then room p - 1 else room p.

Fixpoint largest (room : Person -> nat) (used : list Tag) (rows : list row) : nat :=
  match rows with
  | [] => 0
  | (owners, tag) :: rows =>
      let without := largest room used rows in
      if (if in_dec EqT tag used then true else false) || existsb (fun p => room p =? 0) owners then without
      else Nat.max without (S (largest (less owners room) (tag :: used) rows))
  end.

Definition fits (room : Person -> nat) (used : list Tag) (rows a : list row) : Prop :=
  NoDup (map snd a) /\ incl a rows /\ (forall t, In t (map snd a) -> ~ In t used) /\ forall p, load p a <= room p.

Lemma largest_reached rows : forall room used, exists a, fits room used rows a /\ length a = largest room used rows.
Proof.
  induction rows as [|(owners, tag) rows IH]; intros room used.
  - exists []. unfold fits, load. simpl. repeat split; auto using NoDup_nil; try (intros ? []); lia.
  - assert (S : exists a, fits room used ((owners, tag) :: rows) a /\ length a = largest room used rows).
    { destruct (IH room used) as (a & (N & I & U & L) & E). exists a. repeat split; auto. intros r Hr. right. auto. }
    simpl. destruct (in_dec EqT tag used) as [|Nu]; simpl; auto.
    destruct (existsb (fun p => room p =? 0) owners) eqn:X; auto.
    destruct (Nat.max_spec (largest room used rows) (Datatypes.S (largest (less owners room) (tag :: used) rows))) as [[_ ->]|[_ ->]]; auto.
    destruct (IH (less owners room) (tag :: used)) as (a & (N & I & U & L) & E).
    exists ((owners, tag) :: a). repeat split.
    + simpl. constructor; auto. intros C. apply (U tag C). simpl. auto.
    + intros r [<-|Hr]; simpl; auto.
    + simpl. intros t [<-|Ht]; auto. intros C. apply (U t Ht). simpl. auto.
    + intros p. specialize (L p). unfold load in *. simpl. unfold owned at 1. simpl. unfold less in L.
      destruct (in_dec EqP p owners) as [Ip|]; simpl; auto.
      assert (room p <> 0); [|lia]. intros C.
      assert (existsb (fun p => room p =? 0) owners = true); [|congruence].
      apply existsb_exists. exists p. split; auto. apply Nat.eqb_eq. exact C.
    + simpl. congruence.
Qed.

Lemma largest_is_largest rows : forall room used a, fits room used rows a -> length a <= largest room used rows.
Proof.
  induction rows as [|(owners, tag) rows IH]; intros room used a (N & I & U & L).
  - destruct a as [|r a]; simpl; auto. destruct (I r); simpl; auto.
  - simpl.
    assert (D : (exists a1 a2, a = a1 ++ (owners, tag) :: a2) \/ incl a rows).
    { clear - I EqP EqT. revert I. induction a as [|r a IHa]; intros I; [right; intros x []|].
      destruct (I r (or_introl eq_refl)) as [<-|Hr]; [left; exists [], a; reflexivity|].
      destruct IHa as [(a1 & a2 & ->)|Ha]; [intros x Hx; apply I; simpl; auto|left; exists (r :: a1), a2; reflexivity|].
      right. intros x [<-|Hx]; auto. }
    destruct D as [(a1 & a2 & ->)|Ia].
    + assert (T : ~ In tag used). { apply U. rewrite map_app, in_app_iff. simpl. auto. }
      destruct (in_dec EqT tag used) as [|_]; [contradiction|]. simpl.
      assert (Lm : forall p, load p (a1 ++ (owners, tag) :: a2) = load p (a1 ++ a2) + (if in_dec EqP p owners then 1 else 0)).
      { intros p. unfold load. rewrite !filter_app, !app_length. simpl. unfold owned at 2. simpl.
        destruct (in_dec EqP p owners); simpl; lia. }
      destruct (existsb (fun p => room p =? 0) owners) eqn:X.
      * exfalso. apply existsb_exists in X as (p & Ip & X). apply Nat.eqb_eq in X.
        specialize (L p). rewrite Lm in L. destruct (in_dec EqP p owners); [lia|contradiction].
      * rewrite map_app in N. simpl in N. apply NoDup_remove in N as [N Nt]. rewrite <- map_app in N, Nt.
        assert (length (a1 ++ a2) <= largest (less owners room) (tag :: used) rows).
        { apply IH. repeat split; auto.
          - intros r Hr. assert (Hr' : In r (a1 ++ (owners, tag) :: a2)) by (apply in_app_iff in Hr; apply in_app_iff; simpl; tauto).
            destruct (I r Hr') as [<-|]; auto. exfalso. apply Nt. apply (in_map snd) in Hr. exact Hr.
          - intros t Ht [<-|C]; [contradiction|]. apply (U t); auto.
            rewrite map_app, in_app_iff in *. simpl. tauto.
          - intros p. specialize (L p). rewrite Lm in L. unfold less. destruct (in_dec EqP p owners); lia. }
        rewrite app_length in *. simpl. lia.
    + assert (length a <= largest room used rows) by (apply IH; repeat split; auto).
      destruct (_ || _); lia.
Qed.

Definition most (cap : nat) (rows : list row) : nat := largest (fun _ => cap) [] rows.

(** Theorem. The number that is computed moves by at most [cap] when a person comes or goes with any rows. *)
Theorem most_moves_by_cap u cap rows rows' : incl rows rows' ->
  (forall r, In r rows' -> owned u r = false -> In r rows) -> most cap rows <= most cap rows' <= most cap rows + cap.
Proof.
  intros I H. unfold most. split.
  - destruct (largest_reached rows (fun _ => cap) []) as (a & (N & J & _ & L) & <-).
    apply largest_is_largest. repeat split; auto. intros r Hr. auto.
  - destruct (largest_reached rows' (fun _ => cap) []) as (a & (N & J & _ & L) & <-).
    destruct (flow_bound u cap rows rows' a H) as (b & (N' & J' & L') & B); [repeat split; auto|].
    assert (length b <= largest (fun _ => cap) [] rows); [|lia].
    apply largest_is_largest. repeat split; auto.
Qed.

(** Theorem. Nor by more when a person is replaced: both tables hold the rows of all others. *)
Theorem most_moves_by_cap_replace u cap others rows rows' : incl others rows -> incl others rows' ->
  (forall r, In r rows -> owned u r = false -> In r others) -> (forall r, In r rows' -> owned u r = false -> In r others) ->
  most cap rows <= most cap rows' + cap.
Proof.
  intros I I' H H'. pose proof (most_moves_by_cap u cap others rows I H). pose proof (most_moves_by_cap u cap others rows' I' H'). lia.
Qed.
End Flow.
